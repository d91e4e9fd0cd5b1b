"""Models: services from a `ModelRequest` to a `ModelResponse`.

- Your own: `function`, with `reply`. For tests, and handed on by `testing`: `scripted`, `replay`; `real` forbids calls
  to all others.
- Hosted: `http`, with the wire formats `anthropic`, `openai` and `openai_responses`; `resolving` finds a model by its
  name, `selection` one where none is named.
- In this process: `local`. For models that only write text: `react_protocol`. Embedders: `embed`. Streams
  of JSON: `brackets`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.models.embed import http_embedder as http_embedder, resolve_embedder as resolve_embedder
    from ziggurat.models.function import FunctionModel as FunctionModel
    from ziggurat.models.react_protocol.layer import react as react
    from ziggurat.models.react_protocol.protocol import FINAL_ANSWER as FINAL_ANSWER
    from ziggurat.models.real import require_real_calls_allowed as require_real_calls_allowed
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
