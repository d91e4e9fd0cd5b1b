"""Updates of tasks: what is told of a run, as A2A sends it to those who follow a task."""

from collections.abc import Iterator

from ziggurat.core.clock import SYSTEM_CLOCK
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.serve import narrated
from ziggurat.serve.a2a.tasks import artifacts_of, parts_of_items, state_of, timestamp
from ziggurat.wires import a2a


class Updates:
    """Writes what is told of a run as updates of its task.

    The text of each reply replaces that of the one before, so that the last one is the answer.
    """

    def __init__(self, task: str, context: str, *, pieces: bool = True) -> None:
        self._ids = (task, context)
        self._pieces = pieces
        self._text = ""
        self._count = 0

    def encode(self, tale: narrated.Tale) -> Iterator[a2a.StreamResponse]:
        match tale:
            case narrated.Begin(thinking=False):
                self._text = ""
            case narrated.Piece(thinking=False, text=text) if self._pieces:
                artifact = a2a.Artifact("answer", (a2a.Part(text=text),))
                yield self._changed(artifact, append=bool(self._text))
                self._text += text
            case narrated.Waits(items):
                yield self._in_state(a2a.INPUT_REQUIRED, *parts_of_items([item for _, item in items]))
            case narrated.Over(run):
                yield from self._over(run)

    def _over(self, run: AgentRun | None) -> Iterator[a2a.StreamResponse]:
        state = state_of("Failed" if run is None else stops.status_of(run.stop))
        if state == "TASK_STATE_COMPLETED":
            told = (a2a.Artifact("answer", (a2a.Part(text=self._text),)),)
            made = artifacts_of(run)
            yield from [self._changed(artifact) for artifact in made] if made != told else []
            yield self._in_state(state)
        else:
            yield self._in_state(state, a2a.Part(text=narrated.error_of(run) or state))

    def _changed(self, artifact: a2a.Artifact, *, append: bool = False) -> a2a.StreamResponse:
        return a2a.StreamResponse(artifact_update=a2a.ArtifactUpdate(*self._ids, artifact, append))

    def _in_state(self, state: a2a.TaskState, *parts: a2a.Part) -> a2a.StreamResponse:
        task, context = self._ids
        self._count += 1
        message = a2a.Message(f"{task}-update-{self._count}", "ROLE_AGENT", parts, context, task) if parts else None
        status = a2a.Status(state, message, timestamp(SYSTEM_CLOCK.now()))
        return a2a.StreamResponse(status_update=a2a.StatusUpdate(task, context, status))
