"""``ziggurat run`` and ``chat``: one question, one answer and an exit code, or a conversation on the terminal."""

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from typing import Annotated, Any

from typer import Argument

from ziggurat.cli import live, options, outcome
from ziggurat.cli.agents import Prepared, prepare
from ziggurat.cli.store import is_kept
from ziggurat.cli.terminal import read_line, write
from ziggurat.core.clock import new_id
from ziggurat.core.errors import CallerError, ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Message
from ziggurat.runs.drive import partial_of
from ziggurat.stores.session import Session


@options.with_agent_options
def run(
    chosen: options.AgentOptions,
    question: Annotated[str | None, Argument(help="The question, in quotes; - reads standard input.")] = None,
    session: options.Session = None,
    store: options.Store = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Ask one question and show how it is answered.

    On a terminal all events are shown live. On a pipe only the answer goes to standard output, and the view of steps
    and tools to standard error. If a tool needs approval you are asked; without a terminal the run is suspended with
    exit code 3, and the last line says how to continue it. Runs are stored: ziggurat runs lists them.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --agent desk.py:agent --json "Refund order 881" | jq .event
      echo "What time is it?" | ziggurat run --quiet
      ziggurat run --model openai:gpt-5-mini "Who are you?"
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat run --mcp 'npx -y @modelcontextprotocol/server-filesystem .' "Which files are here?"
    """
    prompt = _question(question)
    prepared = prepare(chosen, session, store, quiet=quiet)
    run_id = new_id()

    def begin(listeners: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
        return prepared.ask(prompt, session, listeners=listeners, run_id=run_id)

    return live.show_run(
        prepared.agent, begin, live.OutputOptions(json, quiet, prepared.where), prepared.approvals, run_id
    )


_HOW = 'ask one, as in: ziggurat run "What is 12 * (7 + 5)?"'


def _question(argument: str | None) -> str:
    if argument is None and sys.stdin.isatty():
        raise ConfigurationError(f"there is no question; {_HOW}")
    if argument is None or argument == "-":
        try:
            question = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"standard input is not text in {error.encoding}: {error.reason}") from error
        source = "standard input"
    else:
        question, source = argument, "the question"
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{source} holds bytes that are not text (at character {error.start + 1})") from error
    if not question.strip():
        raise ConfigurationError(f"{source} is empty; {_HOW}")
    return question.strip() if source == "standard input" else question


_COMMANDS = {
    "/help": "show this",
    "/clear": "forget what was said",
    "/exit": "leave (so does Ctrl-D)",
}


@options.with_agent_options
def chat(
    chosen: options.AgentOptions,
    session: options.Session = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
) -> int:
    """Chat with an agent that remembers the conversation.

    /help, /clear and /exit are commands; Ctrl-C stops an answer, Ctrl-D leaves. If a tool needs approval
    you are asked. On a pipe every line is a question.

    \b
    Examples:
      ziggurat chat
      ziggurat chat --agent desk.py:agent
      ziggurat chat --session work
    """
    return _Chat(prepare(chosen, session, store, quiet=quiet), session, quiet=quiet).run()


class _Chat:
    def __init__(self, prepared: Prepared, session: str | None, *, quiet: bool) -> None:
        self._prepared = prepared
        self._agent = prepared.agent
        self._session = None if session is None else Session(session, self._agent.store)
        self._quiet = quiet
        self._history: tuple[Message, ...] = ()
        self._out = sys.stdout
        self._by_hand = sys.stdin.isatty()

    def run(self) -> int:
        """Ask and answer until the end of input; return the exit code: on pipes that of the worst answer."""
        worst = outcome.COMPLETED
        if self._by_hand:
            with suppress(ImportError):
                import readline  # noqa: F401 - enables editing and history of input lines
            self._say(f"{self._agent.name}: ask, or /help. Ctrl-C stops an answer, Ctrl-D leaves.")
        with asyncio.Runner() as runner, ExitStack() as stack:
            stack.callback(lambda: runner.run(self._agent.store.close()))
            while True:
                try:
                    line = self._line("> ")
                except KeyboardInterrupt:
                    if not self._by_hand:
                        return outcome.INTERRUPTED
                    self._say("\n(Ctrl-D or /exit leaves)")
                    continue
                if line is None or line.strip() in ("/exit", "/quit"):
                    return outcome.COMPLETED if self._by_hand else worst
                if line.strip().startswith("/"):
                    self._command(line.strip(), runner)
                elif line.strip():
                    worst = max(worst, self._turn(line.strip(), runner))

    def _line(self, prompt: str) -> str | None:
        if not self._by_hand:
            return sys.stdin.readline() or None
        line = read_line(prompt)
        if line is None:
            self._say("")
        return line

    def _say(self, text: str) -> None:
        """Write a message of the program itself, to standard error unless standard output is a terminal."""
        write(text, self._out if self._out.isatty() else sys.stderr)

    def _command(self, line: str, runner: asyncio.Runner) -> None:
        name = line.split()[0]
        if name == "/help":
            self._say("\n".join(f"{command:<8}{what}" for command, what in _COMMANDS.items()))
        elif name == "/clear":
            self._history = ()
            if self._session is not None:
                runner.run(self._session.clear())
            self._say("forgotten")
        else:
            self._say(f"there is no command {name}; there are {', '.join(_COMMANDS)}")

    def _turn(self, question: str, runner: asyncio.Runner) -> int:
        prepared, run_id = self._prepared, new_id()
        session = None if self._session is None else self._session.id
        history = self._history if session is None else ()
        begun: AgentRun | None = None

        async def begin(listeners: Sequence[Listener]) -> AgentRun:
            nonlocal begun
            try:
                return await prepared.ask(question, session, listeners=listeners, run_id=run_id, history=history)
            except asyncio.CancelledError as error:
                begun = partial_of(error)
                raise

        with live.live_view(quiet=self._quiet) as (_, view, whole):
            try:
                run = live.answered(runner, self._agent, begin, view, prepared.approvals, self._line, self._say)
            except KeyboardInterrupt:
                self._say("\n(stopped)")
                self._remember(begun)
                if begun is None and runner.run(is_kept(self._agent.store, run_id)):
                    outcome.tell_how_to_go_on(run_id, prepared.where)
                return outcome.INTERRUPTED
            except CallerError as error:
                self._say(f"ziggurat: {error}")
                return outcome.STOPPED
        self._remember(run)
        return outcome.write_outcome(run, self._out, prepared.where, was_shown=whole)

    def _remember(self, run: AgentRun | None) -> None:
        """Update the history, unless nothing was answered: then the question is dropped too."""
        if run is None or run.pending:
            return
        if any(message.role == "assistant" for message in run.history[run.start :]):
            self._history = tuple(run.messages)
