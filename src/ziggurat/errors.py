"""Errors: everything that Ziggurat raises, in one tree; see `core.errors`."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.errors import (
        AlreadyDecided as AlreadyDecided,
        CallerError as CallerError,
        CircuitOpen as CircuitOpen,
        ConfigurationError as ConfigurationError,
        ContextOverflow as ContextOverflow,
        Denied as Denied,
        EmptyPrompt as EmptyPrompt,
        InvalidArguments as InvalidArguments,
        JournalCorrupt as JournalCorrupt,
        JournalError as JournalError,
        JournalMismatch as JournalMismatch,
        LeaseHeld as LeaseHeld,
        LeaseLost as LeaseLost,
        LimitExceeded as LimitExceeded,
        MailboxFull as MailboxFull,
        MissingExtra as MissingExtra,
        ModelError as ModelError,
        ModelRetry as ModelRetry,
        NotRepeatable as NotRepeatable,
        RunExists as RunExists,
        RunInProgress as RunInProgress,
        RunNotFound as RunNotFound,
        ServiceError as ServiceError,
        StoreError as StoreError,
        StoreUnavailable as StoreUnavailable,
        StreamInterrupted as StreamInterrupted,
        Suspend as Suspend,
        Timeout as Timeout,
        ToolError as ToolError,
        ZigguratError as ZigguratError,
        is_transient as is_transient,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
