"""Models: services from a `ModelRequest` to a `ModelResponse`.

- For tests and your own: `scripted`, `function`, `replay`, with `reply`; `real` forbids calls to all others.
- Hosted: `http`, with the wire formats `anthropic`, `openai` and `openai_responses`; `resolving` finds a model by its
  name, `selection` one where none is named.
- In this process: `local`. For models that only write text: `react_protocol`. Embedders: `embed`. Streams
  of JSON: `brackets`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.model import (
        Embeddings as Embeddings,
        EmbedRequest as EmbedRequest,
        Model as Model,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelSettings as ModelSettings,
    )
    from ziggurat.models.embed import (
        cached as cached,
        http_embedder as http_embedder,
        resolve_embedder as resolve_embedder,
    )
    from ziggurat.models.function import FunctionModel as FunctionModel
    from ziggurat.models.local.catalogue import install as install
    from ziggurat.models.local.minilm import MiniLm as MiniLm
    from ziggurat.models.react_protocol.layer import react as react
    from ziggurat.models.react_protocol.protocol import FINAL_ANSWER as FINAL_ANSWER
    from ziggurat.models.real import (
        allow_real_calls as allow_real_calls,
        forbid_real_calls as forbid_real_calls,
        require_real_calls_allowed as require_real_calls_allowed,
    )
    from ziggurat.models.replay import ReplayModel as ReplayModel
    from ziggurat.models.resolving import PROVIDERS as PROVIDERS, known_models as known_models, resolve as resolve
    from ziggurat.models.scripted import (
        Pause as Pause,
        ScriptedModel as ScriptedModel,
        ScriptedReply as ScriptedReply,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
