"""How the agent of a run was made is kept with the run, so that it can be made again."""

__all__ = ["labels_of", "shown_wish", "wish_for", "wish_in"]

import os
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from ziggurat.cli.wish import MODEL, Wish
from ziggurat.core.codec import Raw, decode
from ziggurat.core.entries import Opened
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import MemoryJournal

_LABEL = "command line"


class _Labels(msgspec.Struct, rename={"made": _LABEL}):
    """Of the labels of a run that of the command line."""

    made: Wish | None = None


def labels_of(wish: Wish) -> Mapping[str, Any]:
    """Return what is kept of a wish: files by their whole path, the model by the name that was meant."""
    model = wish.model if wish.model is not None or wish.agent is not None else os.environ.get(MODEL) or "local"
    kept = replace(
        wish,
        model=model,
        agent=None if wish.agent is None else _whole(wish.agent),
        tools=tuple(_whole(tool) for tool in wish.tools),
        folder=os.getcwd(),
    )
    return {_LABEL: {name: value for name, value in asdict(kept).items() if value not in (None, ())}}


def _whole(spec: str) -> str:
    where, colon, name = spec.rpartition(":")
    return f"{os.path.abspath(os.path.expanduser(where))}:{name}" if colon and where.endswith(".py") else spec


def wish_in(journal: MemoryJournal) -> Wish | None:
    """Return how the agent of a run was made, None where the command line did not make it."""
    opened = journal.entries[0]
    if not isinstance(opened, Opened) or opened.labels is None:
        return None
    labels = opened.labels
    plain = decode(labels, object) if isinstance(labels, Raw) else labels
    return None if plain is None else msgspec.convert(plain, _Labels).made


def wish_for(run_id: str, journal: MemoryJournal, given: Wish) -> Wish:
    """Return how to make the agent of a run again; what is given now counts more.

    Raises:
        ConfigurationError: that is not on record, and no agent is given.
    """
    if given.agent is not None:
        return given
    made = wish_in(journal)
    if made is None:
        raise ConfigurationError(
            f"the run {run_id} was not begun on the command line, so how its agent is made is not on record; "
            "name the agent with --agent FILE.PY:NAME"
        )
    return replace(
        made,
        model=made.model if given.model is None else given.model,
        tools=given.tools or made.tools,
        instructions=made.instructions if given.instructions is None else given.instructions,
        max_steps=made.max_steps if given.max_steps is None else given.max_steps,
        timeout=made.timeout if given.timeout is None else given.timeout,
        approve=given.approve or made.approve,
    )


def shown_wish(wish: Wish) -> str:
    """Return a wish as the options that it was made of."""
    given: list[str] = []
    for option, value in (
        ("--agent", wish.agent),
        ("--model", wish.model),
        ("--instructions", wish.instructions),
        ("--memory", wish.memory),
    ):
        given += [] if value is None else [option, value]
    for option, values in (("--tool", wish.tools), ("--approve", wish.approve)):
        for each in values:
            given += [option, each]
    return shlex.join(given)
