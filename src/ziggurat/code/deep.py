"""An agent for long work: files, a list of tasks, other agents, and a conversation that stays short."""

from collections.abc import Sequence
from typing import Any, Unpack

from ziggurat.agents.agent import Agent, AgentArguments
from ziggurat.agents.compaction.middleware import Compaction
from ziggurat.agents.runnable import Runnable
from ziggurat.code.results import LargeResults
from ziggurat.code.todos import Todos
from ziggurat.code.workspace import Workspace
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.messages.model import Model
from ziggurat.skills.registry import Skills
from ziggurat.tools.toolbox import Toolbox

MAX_STEPS = 1_000
"""The number of steps of an agent for long work that is given no other."""


@checked
def deep_agent(
    model: str | Model,
    *,
    workspace: Workspace | None = None,
    agents: Sequence[Runnable] = (),
    skills: Skills | None = None,
    compaction: Compaction | None = None,
    output: Any = None,
    **arguments: Unpack[AgentArguments],
) -> Agent[Any]:
    """Return an agent for long work, made of parts that any agent may have.

    ::

        agent = deep_agent(model, workspace=Workspace("project/"), agents=[researcher], instructions="You review code.")

    It has the tools of a workspace, `write_todos`, one tool for each of `agents`, which works with a conversation of
    its own and shares the files, and those in `tools`; long results are put into files, and the conversation is
    compacted.

    Args:
        model: The model.
        workspace: The files; by default on the record of the run.
        agents: Agents that it may give a task to.
        skills: Skills that it may read.
        compaction: How its conversation is shortened; by default at 80 % of the model's window.
        output: The type of its answer, as for `Agent`.
        arguments: The others of `Agent`; `max_steps` is 1,000 by default.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    workspace = workspace or Workspace()
    todos = Todos(workspace)
    given = arguments.pop("tools", ())
    if isinstance(given, Toolbox):
        raise ConfigurationError("deep_agent takes a list of tools, to which it adds its own; got a Toolbox")
    arguments["tools"] = [*workspace.tools, todos.tool, *([] if skills is None else [skills]), *agents, *given]
    if arguments.get("max_steps") is None:
        arguments["max_steps"] = MAX_STEPS
    own = (todos, LargeResults(workspace), compaction or Compaction())
    arguments["middleware"] = [*arguments.get("middleware", ()), *own]
    agent: Agent[Any] = Agent(model, output=output, **arguments)
    return agent
