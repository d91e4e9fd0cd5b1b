"""Steer: one act of steering a run from outside, as it is recorded."""

from typing import Literal

from msgspec import Struct

from ziggurat.messages.message import Message

Verb = Literal["cancel", "inject", "redirect"]
"""Stop the run after a step, give it a message, or make the model abandon its plan and give it a message."""

Place = Literal["before", "response", "tools"]
"""Where in a step an act takes effect: before the model call, after its response, or while its tools run."""


class Steer(Struct, frozen=True, omit_defaults=True):
    """One act of steering, and where in the run it took effect.

    Attributes:
        verb: The kind of steering.
        messages: Messages for the model.
        step: The step in which it took effect.
        place: Where in the step: ``"before"`` the model call, after its ``"response"``, or while its ``"tools"`` ran.
        posted: The number of the item in the run's inbox that brought it; 0 for none.
    """

    verb: Verb
    messages: tuple[Message, ...]
    step: int
    place: Place
    posted: int = 0
