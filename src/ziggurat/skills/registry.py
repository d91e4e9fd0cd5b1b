"""The skills of an agent: loaded from folders, found by a task, and read by the model with one tool."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import hypot, log
from pathlib import Path
from typing import Any

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.event import warn_once
from ziggurat.core.log import logger
from ziggurat.core.service import Fact
from ziggurat.core.settings import Fraction, NonNegativeInt, checked
from ziggurat.memory.words import query_words, stems
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelRequest
from ziggurat.skills.skill import MAIN, Skill, digest_of, load_skill
from ziggurat.tools.function import FunctionTool, raw_tool

_TOOL = "read_skill"
_ORIGIN = "skill:"
"""The beginning of the origin of a result that was read from a skill; the name follows."""

_PARAMETERS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the skill."},
        "file": {"type": "string", "description": f"A file of it; {MAIN}, the instructions, by default."},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class SkillMatch(Struct, frozen=True):
    """A skill that fits a task, and how well it does, from 0 to 1."""

    skill: Skill
    score: float


class Skills:
    """Skills as a tool of an agent::

        agent = Agent(model, tools=[Skills("skills/"), search])

    The model is shown the names and descriptions, and reads the instructions of a skill, or another of its files, with
    the tool `read_skill`. The `allowed-tools` of a skill give no permission; see `narrow`.

    Args:
        sources: Folders of skills, folders that contain such folders, or skills. One that breaks a rule of the
            convention is left out: see `skipped`. Of two with one name the later one is taken.
        pins: The digests of skills, by name: a skill with another digest is off until it is approved.

    Raises:
        ConfigurationError: there is no such folder.
        MissingExtra: PyYAML is not installed.
    """

    def __init__(self, *sources: str | Path | Skill, pins: Mapping[str, str] | None = None) -> None:
        self.skipped: dict[str, str] = {}
        self._skills: dict[str, Skill] = {}
        self._pins = dict(pins or {})
        for source in sources:
            if isinstance(source, Skill):
                self.register(source)
            else:
                self.load(source)

    def register(self, skill: Skill) -> None:
        """Add a skill, in place of one with its name."""
        self._skills[skill.name] = skill

    def load(self, folder: str | Path) -> int:
        """Add the skill in a folder, or those in the folders within it; return the number of skills that were added."""
        folder = Path(folder).expanduser()
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {str(folder)!r} with skills")
        count = 0
        within = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        for each in [folder] if (folder / MAIN).exists() else sorted(within):
            try:
                self.register(load_skill(each))
                self.skipped.pop(str(each), None)
                count += 1
            except ConfigurationError as error:
                self.skipped[str(each)] = str(error)
                logger.warning("a skill was skipped: %s", error)
        return count

    @property
    def all(self) -> list[Skill]:
        """All skills, by name."""
        return [self._skills[name] for name in sorted(self._skills)]

    @property
    def pins(self) -> dict[str, str]:
        """The pins, and the digests of skills that have none, by name: to be passed as `pins` later."""
        return {**{skill.name: skill.digest for skill in self.all}, **self._pins}

    @property
    def off(self) -> list[str]:
        """The names of the skills that differ from their pins, sorted."""
        return [skill.name for skill in self.all if self._pins.get(skill.name, skill.digest) != skill.digest]

    def approve(self, name: str) -> None:
        """Pin a skill as it is now, and turn it on.

        Raises:
            ConfigurationError: there is no such skill, or it breaks a rule now.
        """
        skill = self._skills.get(name)
        if skill is None:
            raise ConfigurationError(f"there is no skill {name!r}")
        if skill.folder is not None:
            self.register(skill := load_skill(skill.folder))
        self._pins[name] = skill.digest

    # -- by task ---------------------------------------------------------------------------------------------------

    @checked
    def find(self, task: str, *, limit: NonNegativeInt = 0, min_score: Fraction = 0.1) -> list[SkillMatch]:
        """Return the skills that fit a task, the best first, of equals in the order of their names.

        The score is the cosine of two vectors: that of the words of the task, and that of the words of the skill's
        description and capabilities. A word that many of the skills have weighs less. With a `limit` of 0 all that have
        at least `min_score` are returned.
        """
        skills = self._usable()
        texts = [Counter(_words(skill)) for skill in skills]
        having = Counter(word for text in texts for word in text)
        weights = {word: log(1 + len(skills) / count) for word, count in having.items()}
        # Words that no skill has count too: a long task about something else has low scores.
        asked = {word: weights.get(word, log(1 + len(skills))) for word in query_words(task)}
        described = [{word: count * weights[word] for word, count in text.items()} for text in texts]
        found = [SkillMatch(skill, _cosine(asked, each)) for skill, each in zip(skills, described, strict=True)]
        best = sorted((match for match in found if match.score >= min_score), key=lambda match: -match.score)
        return best[:limit] if limit else best

    def compose(self, names: Iterable[str]) -> str:
        """Return the instructions of several skills as one text; an unknown name is skipped with a warning."""
        usable = {skill.name: skill for skill in self._usable()}
        parts = []
        for name in names:
            if name in usable:
                parts.append(f"# {name}\n\n{usable[name].read()}")
            else:
                logger.warning("there is no skill %r to compose", name)
        return "\n\n".join(parts)

    def compose_for_task(self, task: str, limit: NonNegativeInt = 3) -> str:
        """Return the instructions of the skills that fit a task best, as one text."""
        return self.compose(match.skill.name for match in self.find(task, limit=limit))

    def _usable(self) -> list[Skill]:
        off = self.off
        return [skill for skill in self.all if skill.name not in off]

    # -- the tools of a skill --------------------------------------------------------------------------------------

    def narrow(self, request: ModelRequest, ctx: Context) -> list[str]:
        """Return the names of the tools to show to the model, for the middleware `DynamicTools`::

            Agent(model, tools=[skills, search], middleware=[DynamicTools(skills.narrow)])

        Of the skill that was read last in the conversation it is `read_skill` and the tools that `allowed-tools` names:
        compared without case, and without what is in parentheses, as in ``Bash(git:*)``. It is all tools if no
        skill was read, or if the skill names none, or none that the agent has, of which a warning is logged.
        """
        names = [tool.name for tool in request.tools]
        origins = [result.origin or "" for message in request.messages for result in message.tool_results]
        read = [origin.removeprefix(_ORIGIN) for origin in origins if origin.startswith(_ORIGIN)]
        skill = self._skills.get(read[-1]) if read else None
        if skill is None or not skill.allowed_tools:
            return names
        allowed = {each.partition("(")[0].casefold() for each in skill.allowed_tools}
        kept = [name for name in names if name.casefold() in allowed and name != _TOOL]
        if kept:
            return [*kept, _TOOL]
        named = ", ".join(skill.allowed_tools)
        warn_once(f"the skill {skill.name} allows {named}; the agent has none of these, and all tools stay")
        return names

    # -- as a tool -------------------------------------------------------------------------------------------------

    @property
    def facts(self) -> dict[Fact[Any], Any]:
        """The facts of the tool, with the skills that there are now."""
        return self._tool().facts

    async def __call__(self, call: ToolCall, ctx: Context) -> ToolResult:
        return await self._tool()(call, ctx)

    def _tool(self) -> FunctionTool:
        lines = [f"- {skill.name}: {skill.description}" for skill in self._usable()]
        text = "Read a skill: instructions for a kind of task. Read the one that fits before you begin such a task."
        description = "\n".join([text, "Skills:", *(lines or ["none"])])
        return raw_tool(
            self._read, name=_TOOL, description=description, parameters=_PARAMETERS, effect="none", permissions=[]
        )

    def _read(self, arguments: dict[str, Any]) -> ToolResult:
        name, file = arguments["name"], arguments.get("file", MAIN)
        skill = self._skills.get(name)
        if skill is None:
            raise ToolError(f"unknown skill {name!r}; there are: {', '.join(sorted(self._skills))}", kind="not_found")
        pin = self._pins.get(name)
        # Computed anew: a file may have been changed since the skill was loaded.
        if pin is not None and pin != (skill.digest if skill.folder is None else digest_of(skill.folder)):
            raise ToolError(f"the skill {name} was changed; it is off until a person approves it", kind="denied")
        parts = [skill.read(file)]
        if file == MAIN and skill.files:
            parts.append(f"Files of this skill: {', '.join(skill.files)}")
        if file == MAIN and skill.allowed_tools:
            parts.append(f"Tools for this skill, if you have them: {', '.join(skill.allowed_tools)}")
        return ToolResult("", "", "\n\n".join(parts), origin=f"{_ORIGIN}{name}")

    def __repr__(self) -> str:
        return f"Skills({', '.join(sorted(self._skills))})"


def _words(skill: Skill) -> list[str]:
    return [*query_words(skill.description), *(word for each in skill.capabilities for word in stems(each))]


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    length = hypot(*one.values()) * hypot(*other.values())
    shared = sum(weight * other.get(word, 0.0) for word, weight in one.items())
    return min(1.0, shared / length) if length else 0.0
