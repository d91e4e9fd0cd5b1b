"""``ziggurat run``: one question, one answer, and an exit code."""

import sys
from functools import partial
from typing import Annotated

import typer

from ziggurat.cli import options
from ziggurat.cli.live import OutputOptions, show_run
from ziggurat.cli.prepare import prepare
from ziggurat.core.clock import new_id
from ziggurat.core.errors import ConfigurationError


@options.with_agent_options
def run(
    chosen: options.AgentOptions,
    question: Annotated[
        str | None, typer.Argument(help="The question, in quotes; - or nothing on a pipe reads standard input.")
    ] = None,
    session: options.Session = None,
    store: options.Store = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write events to standard output, one per line; the last is AgentEnded.")
    ] = False,
    quiet: options.Quiet = False,
) -> int:
    """Ask one question and show how it is answered.

    On a terminal all events are shown live. On a pipe only the answer goes to standard output, and the view of steps
    and tools to standard error. If a tool needs approval you are asked; without a terminal the run is suspended with
    exit code 3, and the last line says how to continue it. Runs are stored: ziggurat runs lists them.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --tool weather:forecast --tool calculator "Rain in Paris?"
      ziggurat run --agent desk.py:agent --json "Refund order 881" | jq .event
      echo "What time is it?" | ziggurat run --quiet
      ziggurat run --model local:/models/qwen.gguf --timeout 60 "Who are you?"
      ziggurat run --model openai:gpt-5-mini "Who are you?"
      ziggurat run --agent desk.py:agent --approve 'delete_*' "Clean up"
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat run --mcp 'npx -y @modelcontextprotocol/server-filesystem .' "Which files are here?"
    """
    prompt = _question(question)
    prepared = prepare(chosen, session, store, quiet=quiet)
    run_id = new_id()
    begin = partial(prepared.ask, prompt, run_id=run_id, session=session)
    return show_run(prepared.agent, begin, OutputOptions(json, quiet, prepared.where), prepared.approvals, run_id)


_HOW = 'ask one, as in: ziggurat run "What is 12 * (7 + 5)?"'


def _question(argument: str | None) -> str:
    """Return the question; ``-``, or no argument on a pipe, reads standard input."""
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
