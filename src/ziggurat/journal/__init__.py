"""The record of a run: its entries, the journal that answers calls from them, its writer, and the protocol of stores.

It knows services and contexts, and no messages.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.journal.journal import LocalJournal as LocalJournal
    from ziggurat.journal.rows import accept_loss as accept_loss
    from ziggurat.journal.store import LogInfo as LogInfo, Row as Row, Store as Store
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
