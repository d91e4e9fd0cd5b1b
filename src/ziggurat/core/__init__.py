"""The base package: services, layers, the context of a call, and the journal of a run.

- The core idea: `service`, `layer`, `combinator`, `facts`.
- A call: `context`, `scope`, `path`, `clock`, `stopwatch`, `event`, `stream`, `broadcast`, `shield`, `containment`.
- The record of a run: `entries`, `journal`, `recorder`, `composites`, `codec`, `json_lines`, `reuse`. In a store:
  `store`, `stored_journal`, `chain`, `loss`.
- Errors: `errors`, `failures`; settings and what they may be: `settings`, `rules`; ids: `ids`; texts without hidden
  characters: `visible`; what objects can do: `protocols`;
  modules that hand on names: `lazy`.

Nothing here knows about models, tools or agents.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.clock import CLOCK, IDS, RANDOM, SYSTEM_CLOCK, Clock, SystemClock, new_id
    from ziggurat.core.combinator import Combinator
    from ziggurat.core.context import JOURNAL, RUN_ID, Context, Journal, root
    from ziggurat.core.facts import COMPOSITE, EFFECT, NAME, Effect, Fact, fact, name_of
    from ziggurat.core.journal import LocalJournal, journal_of
    from ziggurat.core.layer import Layer, stack
    from ziggurat.core.loss import accept_loss
    from ziggurat.core.scope import Key, Scope
    from ziggurat.core.service import Service
    from ziggurat.core.settings import (
        Fraction,
        NonEmptyText,
        NonNegativeFloat,
        NonNegativeInt,
        NonNegativeSeconds,
        PositiveFloat,
        PositiveInt,
        Seconds,
        SecondsOrForever,
        checked,
    )
    from ziggurat.core.store import LogInfo, LogMark, Row, Store, SupportsChangeSignal, SupportsLogMarks
    from ziggurat.core.stream import EventStream, open_stream
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "core.clock": ("CLOCK", "Clock", "IDS", "RANDOM", "SYSTEM_CLOCK", "SystemClock", "new_id"),
            "core.combinator": ("Combinator",),
            "core.context": ("Context", "JOURNAL", "Journal", "RUN_ID", "root"),
            "core.facts": ("COMPOSITE", "EFFECT", "Effect", "Fact", "NAME", "fact", "name_of"),
            "core.journal": ("LocalJournal", "journal_of"),
            "core.layer": ("Layer", "stack"),
            "core.loss": ("accept_loss",),
            "core.scope": ("Key", "Scope"),
            "core.service": ("Service",),
            "core.settings": (
                "Fraction",
                "NonEmptyText",
                "NonNegativeFloat",
                "NonNegativeInt",
                "NonNegativeSeconds",
                "PositiveFloat",
                "PositiveInt",
                "Seconds",
                "SecondsOrForever",
                "checked",
            ),
            "core.store": ("LogInfo", "LogMark", "Row", "Store", "SupportsChangeSignal", "SupportsLogMarks"),
            "core.stream": ("EventStream", "open_stream"),
        },
    )

__all__ = [
    "CLOCK",
    "COMPOSITE",
    "EFFECT",
    "IDS",
    "JOURNAL",
    "NAME",
    "RANDOM",
    "RUN_ID",
    "SYSTEM_CLOCK",
    "Clock",
    "Combinator",
    "Context",
    "Effect",
    "EventStream",
    "Fact",
    "Fraction",
    "Journal",
    "Key",
    "Layer",
    "LocalJournal",
    "LogInfo",
    "LogMark",
    "NonEmptyText",
    "NonNegativeFloat",
    "NonNegativeInt",
    "NonNegativeSeconds",
    "PositiveFloat",
    "PositiveInt",
    "Row",
    "Scope",
    "Seconds",
    "SecondsOrForever",
    "Service",
    "Store",
    "SupportsChangeSignal",
    "SupportsLogMarks",
    "SystemClock",
    "accept_loss",
    "checked",
    "fact",
    "journal_of",
    "name_of",
    "new_id",
    "open_stream",
    "root",
    "stack",
]
