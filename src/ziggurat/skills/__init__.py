"""Skills: folders of instructions that a model reads when it needs them; and personas."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "skills.persona": ("Persona", "Personas"),
        "skills.registry": ("SkillMatch", "Skills"),
        "skills.skill": ("Skill", "load_skill"),
    },
)
