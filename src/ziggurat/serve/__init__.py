"""HTTP: agents that are started, watched, decided on and steered by other programs and by people.

- `application` is the server as an ASGI application.
- Every request passes the `guard` first; `routes` answers it, from the `served` agents and the record of their runs.
- `rows` are what it lists, `views` what it shows of a run and its calls, and how two runs differ; `decisions` are what
  waits for clients, and what they decide.
- `driving` drives runs through the times and events that they wait for.
- `feed` reads a run once for all who follow it. `narration` tells clients of other protocols what happens in a run,
  live and from the record.
- `openai` are the APIs of OpenAI and Anthropic, `mcp` is the Model Context Protocol, `a2a` the protocol of agents, `ui`
  those of user interfaces.
- `sse` are streams as they are sent, `requests` has ids, numbers and statuses of all routes.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.serve.application import app as app
    from ziggurat.serve.mcp.inputs import ask_client as ask_client
    from ziggurat.serve.mcp.offering import McpServer as McpServer, resource as resource
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
