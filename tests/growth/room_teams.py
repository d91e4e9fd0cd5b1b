"""The readers of teams: what models write as lists, names and scores, and the views of a conversation."""

from contextlib import suppress

from tests.growth.measure import Case
from tests.growth.room_messages import CONVERSATIONS, given, over
from tests.growth.shapes import JSON, TEXT
from ziggurat.errors import InvalidArguments
from ziggurat.teams.replies import listed_in, name_in, split_task
from ziggurat.teams.swarming import converge
from ziggurat.teams.turns import progress_in
from ziggurat.teams.visibility import speakers_of


def progress(text: str) -> None:
    with suppress(InvalidArguments):
        progress_in(text, {"ann": 1})


CASES: list[Case] = [
    *over("teams.replies.listed_in", listed_in, [*TEXT, *JSON]),
    *over("teams.replies.split_task", lambda text: split_task(text, "depth"), TEXT),
    *over("teams.planning.progress_in", progress, [*TEXT, *JSON]),
    *over("teams.replies.name_in", lambda text: name_in(text, {"ann": 1, "ben": 2}), TEXT),
    *over("teams.swarming.converge", lambda text: converge([("ann", line) for line in text.split(" ")]), TEXT),
    *given("teams.visibility.speakers_of", speakers_of, CONVERSATIONS),
]
