import asyncio

import pytest

from ziggurat import ConfigurationError, Context
from ziggurat.core import name_of, root
from ziggurat.testing import fail_on


async def echo(request: int, ctx: Context) -> int:
    return request


@pytest.mark.parametrize("numbers", [(), (1,), (2, 3), (4,)])
async def test_it_fails_on_these_calls_only(numbers: tuple[int, ...]) -> None:
    service = fail_on(echo, *numbers, error=lambda: OSError("full"))
    answers = await asyncio.gather(*[service(n, root()) for n in range(1, 5)], return_exceptions=True)
    assert [isinstance(answer, OSError) for answer in answers] == [n in numbers for n in range(1, 5)]
    assert service.calls == 4


def test_calls_are_counted_from_one_and_facts_stay_reachable() -> None:
    assert name_of(fail_on(echo, 1)) == "echo"
    with pytest.raises(ConfigurationError, match="numbers"):
        fail_on(echo, 0)
    with pytest.raises(ConfigurationError, match="numbers"):
        fail_on(echo, "1")  # type: ignore[arg-type]


def test_an_error_is_made_anew_each_time() -> None:
    with pytest.raises(ConfigurationError, match="error"):
        fail_on(echo, 1, error=ValueError("x"))  # type: ignore[arg-type]
