"""The base package: services, layers, the context of a call, and the record of a run.

Nothing here knows about models, tools or agents.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.clock import (
        CLOCK as CLOCK,
        IDS as IDS,
        RANDOM as RANDOM,
        SYSTEM_CLOCK as SYSTEM_CLOCK,
        Clock as Clock,
        SystemClock as SystemClock,
        new_id as new_id,
    )
    from ziggurat.core.combinator import Combinator as Combinator
    from ziggurat.core.context import (
        JOURNAL as JOURNAL,
        RUN_ID as RUN_ID,
        Context as Context,
        Journal as Journal,
        root as root,
    )
    from ziggurat.core.diagram import (
        DIAGRAM as DIAGRAM,
        Diagram as Diagram,
        DiagramEdge as DiagramEdge,
        DiagramNode as DiagramNode,
    )
    from ziggurat.core.facts import (
        COMPOSITE as COMPOSITE,
        EFFECT as EFFECT,
        NAME as NAME,
        Effect as Effect,
        Fact as Fact,
        fact as fact,
        name_of as name_of,
    )
    from ziggurat.core.journal import LocalJournal as LocalJournal, journal_of as journal_of
    from ziggurat.core.layer import Layer as Layer, stack as stack
    from ziggurat.core.live import (
        LiveBuffer as LiveBuffer,
        LiveMessages as LiveMessages,
        LiveReader as LiveReader,
        Send as Send,
        SupportsLiveMessages as SupportsLiveMessages,
    )
    from ziggurat.core.queue import Claim as Claim, InboxItem as InboxItem, Queue as Queue
    from ziggurat.core.scope import Key as Key, Scope as Scope
    from ziggurat.core.service import Service as Service
    from ziggurat.core.settings import (
        Fraction as Fraction,
        NonEmptyText as NonEmptyText,
        NonNegativeFloat as NonNegativeFloat,
        NonNegativeInt as NonNegativeInt,
        NonNegativeSeconds as NonNegativeSeconds,
        PositiveFloat as PositiveFloat,
        PositiveInt as PositiveInt,
        Seconds as Seconds,
        SecondsOrForever as SecondsOrForever,
        checked as checked,
    )
    from ziggurat.core.store import (
        LogInfo as LogInfo,
        LogMark as LogMark,
        Row as Row,
        Store as Store,
        SupportsChangeSignal as SupportsChangeSignal,
        SupportsImmediateWrites as SupportsImmediateWrites,
        SupportsLogMarks as SupportsLogMarks,
    )
    from ziggurat.core.stored_rows import accept_loss as accept_loss
    from ziggurat.core.stream import EventStream as EventStream, open_stream as open_stream

__getattr__, __dir__, __all__ = lazy(__name__)
