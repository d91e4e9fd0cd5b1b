"""TeamResult: the answers of the members of a team, as its run holds them."""

from collections.abc import Iterable

from msgspec import Struct, json

from ziggurat.messages.agent import AgentRun
from ziggurat.teams.conversation import FAILED
from ziggurat.teams.visibility import speakers_of

SCORES = "Scores: "
"""How the note of the scores in a debate begins."""

SUBTASK = "Subtask "
"""How the note of a subtask of a swarm begins."""


class TeamResult(Struct, frozen=True):
    """What each member of a team has contributed to a run; read from the messages of the run.

    ::

        result = TeamResult.of(await team.run("Which is the best?"))
        print(result.answers, result.is_unanimous)

    Attributes:
        answers: The last answer of each member, by its name; not what the team itself has made of them.
        failures: Why a member could not answer, by its name, if it has failed at least once.
        scores: The scores of a debate so far, by name.
    """

    answers: dict[str, str]
    failures: dict[str, str]
    scores: dict[str, float]

    @classmethod
    def of(cls, run: AgentRun) -> "TeamResult":
        """Return that of a run of a team."""
        answers: dict[str, str] = {}
        failures: dict[str, str] = {}
        scores: dict[str, float] = {}
        team: str | None = None  # a team that also speaks in its own name has left notes before
        history = run.history
        speakers = speakers_of(history)
        for message, speaker in zip(history[run.start :], speakers[run.start :], strict=True):
            if message.role == "assistant" and not message.tool_calls and speaker not in (None, team):
                answers[speaker] = message.text
            elif message.origin == "runtime" and message.name:
                start = f"{message.name} {FAILED}: "
                if message.text.startswith(start):
                    failures[message.name] = message.text[len(start) :]
                elif message.text.startswith((SCORES, SUBTASK)) and "/" not in message.name:  # not of a team within it
                    team = message.name
                    if message.text.startswith(SCORES):
                        scores = json.decode(message.text[len(SCORES) :], type=dict[str, float])
        return cls(answers, failures, scores)

    @property
    def all_answered(self) -> bool:
        """Whether no member has failed."""
        return not self.failures

    @property
    def distinct_answers(self) -> tuple[str, ...]:
        """The different answers, in the order of the members."""
        return tuple(dict.fromkeys(self.answers.values()))

    @property
    def is_unanimous(self) -> bool:
        """Whether all members have answered, and with the same text."""
        return self.all_answered and len(self.distinct_answers) == 1

    @property
    def winner(self) -> str | None:
        """The member with the highest score above 0; None if there is none, or if several have it."""
        return only_highest(self.scores.items())


def only_highest(scores: Iterable[tuple[str, float]]) -> str | None:
    best = sorted(scores, key=lambda pair: -pair[1])
    if not best or best[0][1] <= 0 or (len(best) > 1 and best[1][1] == best[0][1]):
        return None
    return best[0][0]
