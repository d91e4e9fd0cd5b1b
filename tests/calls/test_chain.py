import pytest

from ziggurat import ConfigurationError, Context, Middleware, ModelRequest, ModelResponse, Service, layer
from ziggurat.calls.hooks import HOOKS, HookChain, given
from ziggurat.core import root
from ziggurat.messages import assistant


class Quiet(Middleware):
    """Overrides nothing."""


class Loud(Middleware):
    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        return ModelResponse(assistant(response.text.upper()))


class Louder(Loud):
    async def on_error(self, error: BaseException, ctx: Context) -> None:
        raise RuntimeError


def test_the_chain_knows_who_overrides_what() -> None:
    quiet, loud, louder = Quiet(), Loud(), Louder()
    chain = HookChain([quiet, loud, louder])
    assert chain.middlewares == (quiet, loud, louder)
    assert chain.hooks["after_model"] == (loud, louder)
    assert chain.hooks["on_error"] == (louder,)
    assert chain.hooks["before_tool"] == ()
    assert chain.has("before_tool", "after_model")
    assert not chain.has("before_tool", "wrap_tool")


def test_every_hook_is_listed() -> None:
    stated = {name for name in vars(Middleware) if not name.startswith("_")} - {"name"}
    assert set(HOOKS) == stated
    assert set(HookChain().hooks) == stated


@layer
async def plain(request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]) -> ModelResponse:
    return await model(request, ctx)


@pytest.mark.parametrize("wrong", [Quiet, plain(), None, "x"])
def test_anything_else_is_refused_with_what_to_do(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=r"is a Middleware, made once, .*; a layer goes around one service"):
        given(root(), wrong)  # type: ignore[arg-type]


def test_middlewares_without_hooks_are_not_even_in_the_scope() -> None:
    ctx = root()
    assert given(ctx, Quiet(), Quiet()) is ctx
