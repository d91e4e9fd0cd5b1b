"""Gives agents a memory: what has to do with a question is recalled into the prompt, and what was said is kept."""

from ziggurat.agents.remembering.middleware import Remembering
from ziggurat.agents.remembering.mind import Note
from ziggurat.agents.remembering.policies import FactsBy, Policy, everything_said
from ziggurat.agents.remembering.tools import memory_tools

__all__ = ["FactsBy", "Note", "Policy", "Remembering", "everything_said", "memory_tools"]
