"""The state of a session that goes on is that of all its rows."""

import random

import pytest

from tests.samples import SEED, amount
from ziggurat import ToolCall, ToolResult, user
from ziggurat.journal.rows import DigestChain
from ziggurat.messages import assistant, tool_message
from ziggurat.stores.session_log import (
    AddedItem,
    ConversationReplaced,
    ItemRemoved,
    ItemsAdded,
    MessagesAdded,
    SessionCleared,
    SessionEntry,
    SessionState,
)

CALL = assistant("", ToolCall("1", "look", "{}"))
WORDS = [user("a"), user("b"), assistant("c"), CALL, tool_message(ToolResult("1", "look", "d"))]


def state_of(entries: list[SessionEntry]) -> SessionState:
    state = SessionState("s", DigestChain())
    for number, entry in enumerate(entries, 1):
        state.take_in(number, entry)
    return state


@pytest.mark.parametrize("seed", range(amount(40, 3_000)))
def test_a_state_that_goes_on_is_that_of_all_rows(seed: int) -> None:
    draw = random.Random(f"{SEED} {seed}")
    state, entries, counts = state_of([]), list[SessionEntry](), {"r": 0, "q": 0}
    for number in range(1, draw.randrange(2, 14)):
        run, said = draw.choice(["r", "q"]), tuple(draw.choices(WORDS, k=draw.randrange(4)))
        shorter = ConversationReplaced(0, run, draw.randrange(number), counts[run], number, said[:1])
        added = ItemsAdded(0, tuple(AddedItem(each) for each in said))
        others: list[SessionEntry] = [ItemRemoved(0), SessionCleared(0), shorter, added]
        start = draw.randrange(counts[run] + 1)
        entry = draw.choice([*[MessagesAdded(0, run, start, said)] * 6, *others])
        if isinstance(entry, MessagesAdded):
            counts[run] = start + len(said)
        entries.append(entry)
        state.take_in(number, entry)
        asked = draw.choice([None, 3])
        assert list(state.beginning(asked)) == list(state_of(entries).beginning(asked))
        assert state.items() == state_of(entries).items()
        assert state.of_run(run) == state_of(entries).of_run(run)
