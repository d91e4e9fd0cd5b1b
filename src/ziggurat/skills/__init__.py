"""Skills: folders of instructions that a model reads when it needs them; and personas."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.skills.persona import Persona as Persona, Personas as Personas
    from ziggurat.skills.registry import Skills as Skills
    from ziggurat.skills.skill import Skill as Skill
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
