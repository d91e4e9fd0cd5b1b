"""The directory: who is found, in what order, and when somebody is forgotten."""

from hypothesis import given, strategies as st

from ziggurat.runtime import Directory
from ziggurat.testing import HandClock

tags = st.frozensets(st.sampled_from("abcde"))


@given(st.lists(tags, max_size=6), tags, tags)
def test_who_has_all_required_tags_is_found_the_most_similar_first(
    members: list[frozenset[str]], required: frozenset[str], preferred: frozenset[str]
) -> None:
    directory = Directory()
    for number, each in enumerate(members):
        directory.register(str(number), each)
    matches = directory.query(required, preferred=preferred)
    assert {match.name for match in matches} == {str(at) for at, each in enumerate(members) if required <= each}
    asked = required | preferred
    for match in matches:
        has = match.registration.tags
        assert match.score == (len(has & asked) / len(has | asked) if has | asked else 0)
    order = [(-match.score, int(match.name)) for match in matches]
    assert order == sorted(order)


def test_limits_leave_out_only_those_who_are_known_to_be_beyond() -> None:
    directory = Directory()
    directory.register("unknown", ["x"])
    directory.register("slow", ["x"], latency=5, cost=1)
    directory.register("dear", ["x"], latency=1, cost=5)
    assert [match.name for match in directory.query(["x"], max_latency=4.9)] == ["unknown", "dear"]
    assert [match.name for match in directory.query(["x"], max_cost=1)] == ["unknown", "slow"]
    assert [match.name for match in directory.query(max_latency=5)] == ["unknown", "slow", "dear"]
    assert directory.query()[0].score == 0


def test_health_weighs_and_who_is_unhealthy_is_still_listed() -> None:
    directory = Directory()
    for name in ("a", "b", "c"):
        directory.register(name, ["x"])
    directory.heartbeat("a", "unhealthy")
    directory.heartbeat("b", "degraded")
    directory.heartbeat("nobody")
    assert [(match.name, match.score) for match in directory.query(["x"])] == [("c", 1.0), ("b", 0.6), ("a", 0.0)]
    directory.heartbeat("b", "unknown")
    assert [match.score for match in directory.query(["x"])] == [1.0, 0.0, 0.0]
    directory.register("a", ["x", "y"], value=42)  # in place of the first, and healthy again
    assert [match.name for match in directory.query(["x"])] == ["c", "a", "b"]
    assert [match.registration.value for match in directory.query(["y"])] == [42]
    directory.deregister("a")
    directory.deregister("a")
    assert ("a" in directory, len(directory)) == (False, 2)


async def test_who_is_not_seen_for_some_time_is_found_until_it_is_evicted() -> None:
    clock = HandClock()

    directory = Directory(ttl=10, clock=clock)
    directory.register("a", ["x"])
    directory.register("b", ["x"])
    await clock.advance(6)
    directory.heartbeat("b")
    await clock.advance(4)
    assert len(directory.query(["x"])) == 2
    assert directory.evict() == ("a",)
    assert directory.evict() == ()
    await clock.advance(6)
    assert directory.evict() == ("b",)
