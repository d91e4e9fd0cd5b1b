import asyncio
import contextlib

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.core.hand import HandClock, settle
from tests.journal.calls import Answer, Calls, ask, asked, beneath, resumed, tries
from ziggurat import Context, Event, Timeout
from ziggurat.errors import JournalCorrupt, JournalMismatch, LimitExceeded
from ziggurat.events import Diverged
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Ended, Failure, Opened, RedactEntry, Result


def test_a_call_is_made_once_and_answered_by_reference() -> None:
    journal, answer = LocalJournal(), Answer("a")
    calls = Calls(answer)
    assert ask(beneath(journal), calls, returns=Answer) is answer
    assert ask(beneath(journal), calls, returns=Answer) is answer
    assert calls.asked == ["q"]


async def test_the_same_context_asked_twice_is_answered_from_the_record() -> None:
    ctx, calls = beneath(LocalJournal()).at("call"), Calls("a")
    for _ in range(3):
        assert await ctx.once("model", "q", calls, returns=str) == "a"


async def test_children_made_after_a_call_are_recorded_too() -> None:
    journal = LocalJournal()
    ctx = beneath(journal).at("call")
    await ctx.once("model", "q", Calls("a"), returns=str)
    await ctx.under("more").once("model", "q", Calls("b"), returns=str)
    assert journal.find("run/call/more") is not None


async def test_a_try_again_around_a_recorded_call_is_recorded() -> None:
    journal = LocalJournal()
    ctx, calls = beneath(journal).at("call"), Calls(ValueError("one"), "a")
    with pytest.raises(ValueError, match="one"):
        await ctx.once("model", "q", calls, returns=str)
    assert await ctx.again().once("model", "q", calls, returns=str) == "a"
    assert [type(entry) for entry in journal.entries] == [Failure, Result]


async def test_beneath_once_calls_pass_through() -> None:
    async def outer(request: str, ctx: Context) -> str:
        return f"{await ctx.under('inner').once('inner', request, Calls('a'), returns=str)}!"

    journal = LocalJournal()
    assert await beneath(journal).at("call").once("outer", "q", outer, returns=str) == "a!"
    assert [entry.path for entry in journal.entries] == ["run/call"]


def test_who_sees_a_try_fail_asks_again() -> None:
    journal = LocalJournal()
    calls = Calls(ValueError("one"), ValueError("two"), "a")
    assert tries(beneath(journal), calls, 4) == ["ValueError: one", "ValueError: two", "a", "a"]
    assert len(calls.asked) == 3
    assert [type(entry) for entry in journal.entries] == [Failure, Failure, Result]


def test_one_error_object_raised_twice_is_two_tries() -> None:
    journal, error = LocalJournal(), ValueError("same")
    assert tries(beneath(journal), Calls(error, error, "a"), 3) == ["ValueError: same", "ValueError: same", "a"]
    assert [type(entry) for entry in journal.entries] == [Failure, Failure, Result]
    other = LocalJournal()
    tries(beneath(other), Calls(error), 1)
    assert [type(entry) for entry in other.entries] == [Failure]


def test_an_error_recorded_below_is_not_recorded_as_a_verdict_again() -> None:
    journal, error = LocalJournal(), ValueError("no")
    tries(beneath(journal), Calls(error), 1)
    assert journal.is_known(error)
    assert not journal.is_known(ValueError("no"))


def test_an_error_that_cannot_be_written_upon_is_recorded() -> None:
    class Frozen(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError("frozen")

    journal = LocalJournal()
    assert tries(beneath(journal), Calls(Frozen("no"), "a"), 2) == ["Frozen: no", "a"]


async def test_cancellation_is_no_outcome() -> None:
    journal = LocalJournal()
    ctx = beneath(journal)

    async def hang(request: str, ctx: Context) -> str:
        await asyncio.Event().wait()
        return "never"

    task = asyncio.create_task(asked(ctx, hang, "q", "model", str))  # type: ignore[arg-type]
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert journal.entries == []
    assert await asked(ctx, Calls("a"), "q", "model", str) == "a"


@given(st.integers(0, 4), st.booleans())
def test_tries_are_answered_in_order_then_the_result(failures: int, answered: bool) -> None:
    journal = LocalJournal()
    script: list[object] = [ValueError(str(number)) for number in range(failures)] + ["a"] * answered
    first = tries(beneath(journal), Calls(*script), len(script))
    calls = Calls(*["live"] * 3)
    again = tries(beneath(resumed(journal)), calls, len(script) + 2)
    assert again == first + (["a", "a"] if answered else ["live", "live"])
    assert len(calls.asked) == (0 if answered else 1)


@given(st.text(max_size=20), st.one_of(st.none(), st.integers(0, 9)))
def test_values_are_read_by_their_type(text: str, usage: int | None) -> None:
    journal, answer = LocalJournal(), Answer(text, usage)
    ask(beneath(journal), Calls(answer), returns=Answer)
    assert ask(beneath(resumed(journal)), Calls(), returns=Answer) == answer
    assert ask(beneath(resumed(resumed(journal))), Calls(), returns=Answer) == answer


def test_a_journal_written_twice_is_the_same() -> None:
    journal = LocalJournal()
    journal.append(Opened("", "r", 1, 1.0))
    tries(beneath(journal), Calls(ValueError("no"), LimitExceeded("t", 1, 2), "a"), 3)
    journal.append(Ended("", "Completed", 2.0))
    assert resumed(journal).dump() == journal.dump()
    assert resumed(LocalJournal()).entries == []


def test_errors_come_back_by_kind() -> None:
    class Odd(Exception):
        pass

    journal = LocalJournal()
    tries(beneath(journal), Calls(Timeout("late", seconds=3), Odd("odd"), KeyError("x")), 3)
    assert tries(beneath(resumed(journal)), Calls(), 3) == ["Timeout: late", "ForeignError: odd", "ForeignError: 'x'"]
    with pytest.raises(Timeout) as caught:
        ask(beneath(resumed(journal)), Calls())
    assert caught.value.seconds == 3


def test_a_recorded_failure_is_not_recorded_again_when_it_passes_on() -> None:
    journal = LocalJournal()
    tries(beneath(journal), Calls(ValueError("no")), 1)
    second = resumed(journal)
    with pytest.raises(ValueError, match="no") as caught:
        ask(beneath(second), Calls())
    assert second.is_known(caught.value)
    assert second.is_answer(caught.value)
    assert not journal.is_known(caught.value)


def test_replay_answers_and_never_calls() -> None:
    journal = LocalJournal()
    tries(beneath(journal), Calls(ValueError("no"), "a"), 2)
    calls = Calls("live")
    assert tries(beneath(resumed(journal, mode="replay")), calls, 3) == ["ValueError: no", "a", "a"]
    assert calls.asked == []


def test_replay_of_a_call_that_is_not_on_record_is_a_mismatch() -> None:
    calls = Calls("live")
    with pytest.raises(JournalMismatch, match="run/call"):
        ask(beneath(LocalJournal("replay")), calls)
    assert calls.asked == []
    journal = LocalJournal()
    tries(beneath(journal), Calls(ValueError("no")), 1)
    replay = resumed(journal, mode="replay")
    tries(beneath(replay), Calls(), 1)
    with pytest.raises(JournalMismatch):
        ask(beneath(replay), Calls("live"))


def test_replay_of_another_request_shows_the_difference() -> None:
    journal = LocalJournal()
    ask(beneath(journal), Calls("a"), "one")
    with pytest.raises(JournalMismatch) as caught:
        ask(beneath(resumed(journal, mode="replay")), Calls(), "two")
    text = str(caught.value)
    assert text.startswith("first divergence at run/call: request\n- recorded: ")
    assert "\n+ asked:    " in text


def test_a_call_that_differs_from_the_record_is_a_mismatch() -> None:
    journal = LocalJournal()
    ask(beneath(journal), Calls("a"))
    with pytest.raises(JournalMismatch, match="other"):
        ask(beneath(resumed(journal, mode="replay")), Calls(), name="other")
    journal = LocalJournal()
    ask(beneath(journal), Calls("a"))
    with pytest.raises(JournalMismatch, match="run/call"):
        ask(beneath(resumed(journal)), Calls(), returns=int)


def test_on_resume_the_record_wins_and_a_difference_is_told_or_raised() -> None:
    journal, heard = LocalJournal(), list[Event]()
    ask(beneath(journal), Calls("a"), "one")
    assert ask(beneath(resumed(journal), heard.append), Calls(), "two") == "a"
    assert [type(event) for event in heard] == [Diverged]
    assert ask(beneath(resumed(journal)), Calls(), "two") == "a"
    journal = LocalJournal()
    ask(beneath(journal), Calls("a"), "one")
    with pytest.raises(JournalMismatch):
        ask(beneath(resumed(journal, strict=True)), Calls(), "two")
    assert ask(beneath(resumed(journal, strict=True)), Calls(), "one") == "a"


def three_lines() -> list[bytes]:
    journal = LocalJournal(clock=HandClock())
    journal.append(Opened("", "r", 1, 1.0))
    ask(beneath(journal), Calls("a"))
    journal.append(Ended("", "Completed", 2.0))
    return journal.dump().splitlines(keepends=True)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("bad", [b"\n", b"{\n", b"[]\n", b'{"entry":"Result"}\n', b"\xff\n"])
def test_the_corrupt_line_is_named(number: int, bad: bytes) -> None:
    lines = three_lines()
    lines[number - 1] = bad
    with pytest.raises(JournalCorrupt, match=f"entry {number} cannot be read"):
        LocalJournal.load(b"".join(lines))


def test_an_end_cut_off_and_a_newer_version_are_refused() -> None:
    data = b"".join(three_lines())
    with pytest.raises(JournalCorrupt, match="entry 3 cannot be read"):
        LocalJournal.load(data[:-5])
    journal = LocalJournal()
    journal.append(Opened("", "r", 99, 1.0))
    with pytest.raises(JournalCorrupt, match="99"):
        resumed(journal)


@given(st.data())
def test_a_byte_changed_anywhere_is_found_or_harmless(data: st.DataObject) -> None:
    whole = bytearray(b"".join(three_lines()))
    where = data.draw(st.integers(0, len(whole) - 1))
    whole[where] = data.draw(st.integers(0, 255))
    with contextlib.suppress(JournalCorrupt):  # and nothing else
        LocalJournal.load(bytes(whole))


def test_screens_go_over_what_is_kept_at_and_beneath_their_path_the_innermost_first() -> None:
    def adding(word: str) -> RedactEntry:
        return lambda entry: msgspec.structs.replace(entry, name=f"{entry.name} {word}")

    journal = LocalJournal()
    journal.screen("", adding("all"))
    journal.screen("run/a", inner := adding("a"))
    journal.screen("run/a", inner)
    for path in ("run/a/x", "run/a", "run/ab"):
        journal.append(Result(path, "n", None, 1))
    assert [entry.name for entry in journal.entries if isinstance(entry, Result)] == ["n a all", "n a all", "n all"]
    record = journal.find("run/a")
    assert record is not None
    assert record.result is journal.entries[1]
    assert journal.screened(Result("run/a", "n", None, 1)) == journal.entries[1]
