"""Memory for agents: recall relevant memories into the prompt, and remember runs when they end."""

from ziggurat.agents.memory.active import Note
from ziggurat.agents.memory.middleware import Remembering
from ziggurat.agents.memory.policies import FactsBy, Policy, everything_said
from ziggurat.agents.memory.showing import WorkingValues, memory_tools

__all__ = ["FactsBy", "Note", "Policy", "Remembering", "WorkingValues", "everything_said", "memory_tools"]
