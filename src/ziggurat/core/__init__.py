"""The base package: services, layers, the context of a call, and the record of a run.

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
        "core.stored_rows": ("accept_loss",),
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
