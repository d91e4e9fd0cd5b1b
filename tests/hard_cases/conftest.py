"""Every hard case runs on every store; `new_store` opens the one of the case."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import places

LOOK_INSIDE = frozenset(
    {
        "test_a_decision_on_record_is_acted_upon_if_the_process_ended_right_after",
        "test_an_approval_deep_down_suspends_the_run_and_another_process_goes_on",
        "test_the_journal_holds_no_secret_and_neither_does_anything_heard_at_the_end",
        "test_a_secret_over_the_borders_of_chunks_never_shows_and_the_tail_is_not_lost",
        "test_it_joins_the_run_and_its_record",
        "test_cancelled_at_every_turn",
        "test_the_allowance_of_a_nested_agent_goes_on_too",
    }
)
"""Cases that look into the objects of the store that keeps runs by reference."""

COUNT_TURNS = frozenset(
    {
        "test_a_random_rewrite_is_not_made_again_after_a_crash_between_intent_and_result",
        "test_of_a_hedge_of_agents_too",
        "test_a_reader_that_leaves_with_a_full_buffer_while_the_run_emits_in_finally",
        "test_a_run_that_had_three_of_ten_seconds_left_has_three_after_resume",
        "test_a_store_that_was_loaded_without_a_clock_goes_by_that_of_the_run",
        "test_waiting_is_free_in_one_process_too",
        "test_a_model_may_be_asked_again_where_it_was_cancelled",
        "test_the_payment_that_was_interrupted_is_told_to_the_model",
        "test_two_helpers_at_once_in_one_tool_both_wait",
        "test_a_cancelled_run_can_be_cancelled_again_on_resume_at_every_turn",
    }
)
"""Cases timed by turns of the event loop, or by a clock in hand, neither of which waits for the thread of a disk."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = ["by reference"]
    if metafunc.function.__name__ not in LOOK_INSIDE | COUNT_TURNS:
        kinds.extend(places.PLACES)
    elif metafunc.function.__name__ in COUNT_TURNS - {
        "test_a_cancelled_run_can_be_cancelled_again_on_resume_at_every_turn"
    }:
        kinds.append("memory")
    metafunc.parametrize("_on_every_store", kinds, indirect=True)


@pytest.fixture(autouse=True)
def _on_every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    with places.used(request.param, tmp_path) as opened:
        yield

    async def close() -> None:
        for store in opened:
            await store.close()

    asyncio.run(close())
