"""Personas: roles that an agent plays, as a part of its instructions."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct

Tone = Literal["formal", "casual", "technical", "creative", "concise"]

_TONES: dict[Tone, str] = {
    "formal": "Write formally and politely.",
    "casual": "Write in a friendly, casual way.",
    "technical": "Write precisely, with the terms of the field.",
    "creative": "Write vividly and with imagination.",
    "concise": "Write as briefly as possible.",
}


class Persona(CheckedStruct, frozen=True):
    """A role, its tone and its constraints, each a sentence::

    agent = Agent(model, instructions=Persona("Ada", "a reviewer of code", tone="concise"))
    """

    name: str = "unnamed"
    role: str = ""
    tone: Tone = "formal"
    instructions: str = ""
    constraints: tuple[str, ...] = ()

    def __call__(self, ctx: Context) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The persona as instructions for a model."""
        name = "" if self.name == "unnamed" else self.name
        role = ", ".join(each for each in (name, self.role) if each)
        who = f"You are {role.rstrip('.')}." if role else ""
        rules = [f"- {each}" for each in self.constraints]
        lines = [who, self.instructions, _TONES[self.tone], *(["You must observe:", *rules] if rules else [])]
        return "\n".join(each for each in lines if each)

    def apply(self, prompt: str) -> str:
        """Return one text of the persona and a prompt, for models without instructions."""
        return f"[System]: {self.text}\n[User]: {prompt}"


_BUILT_IN = (
    Persona("assistant", "a helpful assistant", "casual", "Answer questions and help with tasks."),
    Persona(
        "researcher",
        "a careful researcher",
        "formal",
        "Separate facts from opinions.",
        ("Name the source of each fact.", "Say so when you are not sure."),
    ),
    Persona("coder", "an experienced programmer", "technical", "Write simple code that works.", ("Handle errors.",)),
    Persona("critic", "a fair critic", "concise", "Name what is wrong and how to mend it.", ("Judge the work only.",)),
    Persona("teacher", "a patient teacher", "casual", "Explain step by step, with examples."),
)


class Personas:
    """Personas by name: five built-in ones, and those that are registered.

    As instructions it is the persona in use, as within ``with personas.use("critic")``, or none.
    """

    def __init__(self, *personas: Persona) -> None:
        self._personas = {each.name: each for each in (*_BUILT_IN, *personas)}
        self._current: ContextVar[Persona | None] = ContextVar("persona", default=None)

    def register(self, persona: Persona) -> None:
        """Add a persona, in place of one with its name."""
        self._personas[persona.name] = persona

    def get(self, name: str) -> Persona:
        """Return a persona; raise ConfigurationError if there is none of this name."""
        persona = self._personas.get(name)
        if persona is None:
            raise ConfigurationError(f"there is no persona {name!r}; there are {', '.join(self.names)}")
        return persona

    @property
    def names(self) -> list[str]:
        """The names of all personas, sorted."""
        return sorted(self._personas)

    @property
    def current(self) -> Persona | None:
        """The persona in use."""
        return self._current.get()

    @contextmanager
    def use(self, name: str) -> Iterator[Persona]:
        """Use a persona within a block, in this task and those that it starts; then the one before it is restored."""
        token = self._current.set(persona := self.get(name))
        try:
            yield persona
        finally:
            self._current.reset(token)

    def __call__(self, ctx: Context) -> str:
        return "" if self.current is None else self.current.text
