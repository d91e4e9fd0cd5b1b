"""The skills of an agent: loaded from folders, found by a task, and read by the model with one tool."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.facts import Fact
from ziggurat.core.similar import similar
from ziggurat.memory.words import query_words, stems
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.skills.skill import MAIN, Skill, digest_of, load_skill
from ziggurat.tools.function import FunctionTool, raw_tool

logger: logging.Logger = logging.getLogger("ziggurat")

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
    the tool `read_skill`. What a skill says about tools gives no permission.

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
        """Add the skill in a folder, or those in the folders within it; return the number of skills that were added.

        Raises:
            ConfigurationError: there is no such folder.
        """
        folder = Path(folder).expanduser()
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {str(folder)!r} with skills")
        alone = (folder / MAIN).exists()
        count = 0
        for each in [folder] if alone else sorted(path.parent for path in folder.glob(f"*/{MAIN}")):
            try:
                self.register(load_skill(each))
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
        """The digests of all skills, by name, to be passed as `pins` later."""
        return {skill.name: skill.digest for skill in self.all}

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

    def find(self, task: str, *, limit: int = 0, min_score: float = 0.1) -> list[SkillMatch]:
        """Return the skills that fit a task, the best first, of equals in the order of their names.

        The score is half the share of the skill's capabilities whose words are in the task, and half the share of the
        words of its description that are.

        Args:
            task: The task.
            limit: The most skills to return; 0 for all.
            min_score: The lowest score.
        """
        words = set(query_words(task))
        found = [SkillMatch(skill, _score(skill, words)) for skill in self._usable()]
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

    def compose_for_task(self, task: str, limit: int = 3) -> str:
        """Return the instructions of the skills that fit a task best, as one text."""
        return self.compose(match.skill.name for match in self.find(task, limit=limit))

    def _usable(self) -> list[Skill]:
        off = self.off
        return [skill for skill in self.all if skill.name not in off]

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
        return raw_tool(self._read, name="read_skill", description=description, parameters=_PARAMETERS, effect="none")

    def _read(self, arguments: dict[str, Any]) -> str:
        name, file = arguments["name"], arguments.get("file", MAIN)
        skill = self._skills.get(name)
        if skill is None:
            near = similar(name, self._skills, 3)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(self._skills))}"
            raise ToolError(f"unknown skill {name!r}; {hint}", kind="not_found")
        pin = self._pins.get(name)
        # Computed anew: a file may have been changed since the skill was loaded.
        if pin is not None and pin != (skill.digest if skill.folder is None else digest_of(skill.folder)):
            raise ToolError(f"the skill {name} was changed; it is off until a person approves it", kind="denied")
        text = skill.read(file)
        if file != MAIN:
            return text
        more = [f"Files of this skill: {', '.join(skill.files)}"] if skill.files else []
        if skill.allowed_tools:
            more.append(f"Tools for this skill, if you have them: {', '.join(skill.allowed_tools)}")
        return "\n\n".join([text, *more])

    def __repr__(self) -> str:
        return f"Skills({', '.join(sorted(self._skills))})"


def _score(skill: Skill, words: set[str]) -> float:
    capabilities = [set(stems(each)) for each in skill.capabilities]
    described = set(query_words(skill.description))
    has = sum(bool(each) and each <= words for each in capabilities)
    return 0.5 * has / max(len(capabilities), 1) + 0.5 * len(described & words) / max(len(described), 1)
