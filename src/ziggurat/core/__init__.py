"""The base package: services, layers, the context of a call, and the journal of a run.

- The core idea: `service`, `layer`, `combinator`, `facts`.
- A call: `context`, `scope`, `path`, `clock`, `ticks`, `stopwatch`, `event`, `stream`, `broadcast`, `shield`,
  `containment`; what the calls around it hold: `held`, `slots`; several calls at the same time: `fan_out`.
- The record of a run: `entries`, `journal`, `recorder`, `composites`, `acts`, `durations`, `codec`, `json_lines`,
  `reuse`. In a store: `store`, `queue`, `stored_journal`, `stored_rows`, `chain`, `loss`, `live`.
- Errors: `errors`, `failures`; settings and what they may be: `settings`, `rules`; ids: `ids`; texts without hidden
  characters: `visible`; how something is made of parts: `diagram`; what objects can do: `protocols`;
  modules that hand on names: `lazy`; names that somebody may have meant: `similar`.

Nothing here knows about models, tools or agents.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "core.clock": ("CLOCK", "Clock", "IDS", "RANDOM", "SYSTEM_CLOCK", "SystemClock", "new_id"),
        "core.combinator": ("Combinator",),
        "core.context": ("Context", "JOURNAL", "Journal", "RUN_ID", "root"),
        "core.diagram": ("DIAGRAM", "Diagram", "DiagramEdge", "DiagramNode"),
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
        "core.live": ("LiveBuffer", "LiveMessages", "LiveReader", "Send", "SupportsLiveMessages"),
        "core.queue": ("Claim", "InboxItem", "Queue"),
        "core.store": (
            "LogInfo",
            "LogMark",
            "Row",
            "Store",
            "SupportsChangeSignal",
            "SupportsImmediateWrites",
            "SupportsLogMarks",
        ),
        "core.stream": ("EventStream", "open_stream"),
    },
)
