import asyncio

import pytest

from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import name_of
from ziggurat.testing import fail_on


async def echo(request, ctx):
    return request


@pytest.mark.parametrize("numbers", [(), (1,), (2, 3), (4,)])
def test_it_fails_on_these_calls_only(numbers):
    service = fail_on(echo, *numbers, error=lambda: OSError("full"))

    async def main():
        return await asyncio.gather(*[service(n, root()) for n in range(1, 5)], return_exceptions=True)

    answers = asyncio.run(main())
    assert [isinstance(answer, OSError) for answer in answers] == [n in numbers for n in range(1, 5)]
    assert service.calls == 4


def test_facts_stay_reachable():
    assert name_of(fail_on(echo, 1)) == "echo"


def test_calls_are_counted_from_one():
    with pytest.raises(ConfigurationError, match="from 1"):
        fail_on(echo, 0)
