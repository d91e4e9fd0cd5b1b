"""The directory: who is found, in what order, and when somebody is forgotten."""

import pytest
from hypothesis import given, strategies as st

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.runtime import Capability, Directory
from ziggurat.testing import HandClock

tags = st.frozensets(st.sampled_from("abcde"))


@given(st.lists(st.lists(tags, min_size=1, max_size=3), max_size=4), tags, tags)
def test_capabilities_with_all_required_tags_are_found_the_most_similar_first(
    members: list[list[frozenset[str]]], required: frozenset[str], preferred: frozenset[str]
) -> None:
    directory = Directory()
    for number, sets in enumerate(members):
        directory.register(str(number), *(Capability(each, f"{number}.{at}") for at, each in enumerate(sets)))
    matches = directory.query(required, preferred=preferred)
    fitting = {f"{at}.{place}": each for at, sets in enumerate(members) for place, each in enumerate(sets)}
    fitting = {name: each for name, each in fitting.items() if required <= each}
    assert sorted(match.capability.name for match in matches) == sorted(fitting)
    asked = required | preferred
    for match in matches:
        has = fitting[match.capability.name]
        assert match.score == (len(has & asked) / len(has | asked) if has | asked else 0)
        assert match.capability in match.registration.capabilities
        assert match.capability.name.startswith(f"{match.name}.")
    order = [(-match.score, match.capability.name) for match in matches]
    assert order == sorted(order)


def test_limits_are_those_of_the_capability() -> None:
    directory = Directory()
    coder = object()
    write, review = Capability(["python"], "write", latency=9, cost=2), Capability(["python"], "review", latency=1)
    directory.register("coder", write, review, value=coder)
    assert [match.capability for match in directory.query(["python"])] == [write, review]
    (match,) = directory.query(["python"], max_latency=2)
    assert (match.capability, match.registration.value, match.name) == (review, coder, "coder")
    directory.heartbeat("coder", "degraded")
    assert [each.score for each in directory.query(["python"])] == [0.6, 0.6]
    assert len(directory) == 1


def test_a_capability_is_checked() -> None:
    assert Capability(iter(["b", "a"])) == Capability(["a", "b", "a"])
    for mistake in ({"latency": -1}, {"cost": "1"}, {"tags": "python"}, {"tags": [1]}):
        with pytest.raises(ConfigurationError):
            Capability(**wrong(mistake))
    with pytest.raises(ConfigurationError):
        Directory().register("coder", wrong(["python"]))
    with pytest.raises(ConfigurationError):
        Directory().register("")


def test_limits_leave_out_only_those_who_are_known_to_be_beyond() -> None:
    directory = Directory()
    directory.register("unknown", Capability(["x"]))
    directory.register("slow", Capability(["x"], latency=5, cost=1))
    directory.register("dear", Capability(["x"], latency=1, cost=5))
    directory.register("idle")
    assert [match.name for match in directory.query(["x"], max_latency=4.9)] == ["unknown", "dear"]
    assert [match.name for match in directory.query(["x"], max_cost=1)] == ["unknown", "slow"]
    assert [match.name for match in directory.query(max_latency=5)] == ["unknown", "slow", "dear", "idle"]
    assert directory.query()[0].score == 0


def test_health_weighs_and_who_is_unhealthy_is_still_listed() -> None:
    directory = Directory()
    for name in ("a", "b", "c"):
        directory.register(name, Capability(["x"]))
    directory.heartbeat("a", "unhealthy")
    directory.heartbeat("b", "degraded")
    directory.heartbeat("nobody")
    assert [(match.name, match.score) for match in directory.query(["x"])] == [("c", 1.0), ("b", 0.6), ("a", 0.0)]
    directory.heartbeat("b", "unknown")
    assert [match.score for match in directory.query(["x"])] == [1.0, 0.0, 0.0]
    directory.register("a", Capability(["x", "y"]), value=42)  # in place of the first, and healthy again
    assert [match.name for match in directory.query(["x"])] == ["c", "a", "b"]
    assert [match.registration.value for match in directory.query(["y"])] == [42]
    directory.deregister("a")
    directory.deregister("a")
    assert ("a" in directory, "b" in directory, len(directory)) == (False, True, 2)
    assert sorted(match.name for match in directory.query()) == ["b", "c"]


async def test_who_is_not_seen_for_some_time_is_found_until_it_is_evicted() -> None:
    clock = HandClock()

    directory = Directory(ttl=10, clock=clock)
    directory.register("a", Capability(["x"]))
    directory.register("b", Capability(["x"]))
    await clock.advance(6)
    directory.heartbeat("b")
    await clock.advance(4)
    assert len(directory.query(["x"])) == 2
    assert directory.evict() == ("a",)
    assert directory.evict() == ()
    await clock.advance(6)
    assert directory.evict() == ("b",)
