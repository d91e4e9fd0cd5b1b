"""The ids of responses of OpenAI's API: each names a run, and where in its record the response begins."""

import re

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.serve.ids import check_id

_PREFIX = "resp_"

_ITEM = re.compile(r"(?:msg|rs|fc|mcp)_(.+)_\d+")


class ResponseId(Struct, frozen=True):
    """What the id of a response says."""

    run_id: str
    after: int = 0

    @classmethod
    def read(cls, text: str) -> "ResponseId":
        """Return what an id says."""
        run_id, mark, after = text.removeprefix(_PREFIX).partition("~")
        check_id(run_id)
        if mark and not (after.isascii() and after.isdigit() and len(after) < 10):
            raise ConfigurationError(f"the id of a response is {_PREFIX} and the id of a run, got {text!r:.150}")
        return cls(run_id, int(after or 0))

    @classmethod
    def of_item(cls, item_id: str) -> "ResponseId | None":
        """Return the response of whose output an item is, by the item's id; None if it says none."""
        match = _ITEM.fullmatch(item_id)
        try:
            return None if match is None else cls.read(match[1])
        except ConfigurationError:
            return None

    @property
    def suffix(self) -> str:
        """What comes after ``resp_``, and in the ids of the items."""
        return f"{self.run_id}~{self.after}" if self.after else self.run_id

    def __str__(self) -> str:
        return _PREFIX + self.suffix
