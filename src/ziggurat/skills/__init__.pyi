# Written by tests/test_names.py from __init__.py.
from ziggurat.skills.persona import Persona as Persona
from ziggurat.skills.persona import Personas as Personas
from ziggurat.skills.registry import SkillMatch as SkillMatch
from ziggurat.skills.registry import Skills as Skills
from ziggurat.skills.skill import Skill as Skill
from ziggurat.skills.skill import load_skill as load_skill

__all__: list[str]
