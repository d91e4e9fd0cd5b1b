"""The commands, their options and their help. The code behind a command is imported when it is called."""

import sys
from collections.abc import Sequence
from io import StringIO
from typing import IO, Annotated, Protocol, runtime_checkable

import typer

from ziggurat.cli import options
from ziggurat.cli.app_memory import memory_commands
from ziggurat.cli.app_runs import add_run_commands
from ziggurat.cli.terminal import write

_app = typer.Typer(
    name="ziggurat",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_models = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
)
_app.add_typer(_models, name="models")
_app.add_typer(memory_commands(), name="memory")


def execute(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; our own errors are raised."""
    command = typer.main.get_command(_app)
    try:
        with command.make_context("ziggurat", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if not isinstance(error, _WrongUsage):
            raise
        text = StringIO()  # it quotes the arguments as they are
        error.show(text)
        write(text.getvalue(), sys.stderr)
        return error.exit_code
    return 0


@runtime_checkable
class _WrongUsage(Protocol):
    """What typer raises for arguments that fit no command."""

    exit_code: int

    def show(self, file: IO[str] | None = None) -> None: ...


def _show_version(requested: bool) -> None:
    if requested:
        from ziggurat.cli.doctor import version_text

        write(f"ziggurat {version_text()}")
        raise typer.Exit


@_app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run LLM agents from the command line; without an API key, on the embedded model.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --tool weather.py:forecast "Rain in Paris tomorrow?"
      ziggurat run --model anthropic:claude-sonnet-4-5 "Who are you?"
      ziggurat chat --agent desk.py:agent
      ziggurat runs --since 1d
      ziggurat approve RUN
      ziggurat fork RUN --at 2 --model openai:gpt-5-mini

    \b
    Exit codes: 0 done, 1 failed or stopped early, 2 wrong usage, 3 waits for
    decisions, 130 interrupted. ZIGGURAT_DEBUG=1 shows tracebacks.
    """


@_app.command()
def run(
    question: Annotated[
        str | None, typer.Argument(help="The question, in quotes; - or nothing on a pipe reads standard input.")
    ] = None,
    model: options.Model = None,
    tool: options.Tools = None,
    agent: options.Agent = None,
    instructions: options.Instructions = None,
    max_steps: options.Steps = None,
    timeout: options.Timeout = None,
    approve: options.Approve = None,
    session: options.Session = None,
    memory: options.Memory = None,
    store: options.Store = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write events to standard output, one per line; the last is AgentEnded.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
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
    """
    from ziggurat.cli.agent_options import AgentOptions, labels_of, with_model
    from ziggurat.cli.approve import approving, warn_of_unfitting
    from ziggurat.cli.build import agent_of, check_session
    from ziggurat.cli.question import question_of
    from ziggurat.cli.run import OutputOptions, run_question
    from ziggurat.cli.store import where_kept

    chosen = AgentOptions(
        model, tuple(tool or ()), agent, instructions, max_steps, timeout, tuple(approve or ()), memory=memory
    )
    prompt = question_of(question)
    chosen = with_model(chosen, quiet=quiet)
    approvals, labels = approving(chosen.approve), labels_of(chosen)
    runnable = agent_of(chosen, store)
    check_session(runnable, session)
    warn_of_unfitting(runnable, chosen.approve)
    where = where_kept(runnable.store, agent, store)
    raise typer.Exit(run_question(runnable, prompt, OutputOptions(json, quiet, where), approvals, labels, session))


@_app.command()
def chat(
    model: options.Model = None,
    tool: options.Tools = None,
    agent: options.Agent = None,
    instructions: options.Instructions = None,
    max_steps: options.Steps = None,
    timeout: options.Timeout = None,
    approve: options.Approve = None,
    session: options.Session = None,
    memory: options.Memory = None,
    store: options.Store = None,
    quiet: options.Quiet = False,
) -> None:
    """Chat with an agent that remembers the conversation.

    /help, /tools, /clear and /exit are commands; Ctrl-C stops an answer, Ctrl-D leaves. If a tool needs approval
    you are asked. On a pipe every line is a question.

    \b
    Examples:
      ziggurat chat
      ziggurat chat --tool notes.py:search --instructions "You are brief."
      ziggurat chat --agent desk.py:agent
      ziggurat chat --session work
    """
    from ziggurat.cli.agent_options import AgentOptions, labels_of, with_model
    from ziggurat.cli.approve import approving, warn_of_unfitting
    from ziggurat.cli.build import agent_of, check_session
    from ziggurat.cli.chat import Chat
    from ziggurat.cli.store import where_kept

    chosen = AgentOptions(
        model, tuple(tool or ()), agent, instructions, max_steps, timeout, tuple(approve or ()), memory=memory
    )
    chosen = with_model(chosen, quiet=quiet)
    approvals, labels = approving(chosen.approve), labels_of(chosen)
    runnable = agent_of(chosen, store)
    check_session(runnable, session)
    warn_of_unfitting(runnable, chosen.approve)
    where = where_kept(runnable.store, agent, store)
    raise typer.Exit(
        Chat(runnable, quiet=quiet, approvals=approvals, labels=labels, session=session, where=where).run()
    )


add_run_commands(_app)


@_models.callback()
def _models_group() -> None:
    """List models, install those of the catalogue, and remove them.

    \b
    Examples:
      ziggurat models list
      ziggurat models install coder
      ziggurat models remove coder
    """


@_models.command("list")
def models_list() -> None:
    """List the forms of model names, and what each provider needs.

    API keys are shown by their environment variables, never by their values.

    \b
    Example:
      ziggurat models list
    """
    from ziggurat.cli.models import list_models

    raise typer.Exit(list_models())


@_models.command("install")
def models_install(
    name: Annotated[str, typer.Argument(help="Its name in the catalogue: coder (1.1 GB) or smollm (98 MB).")],
) -> None:
    """Download a model of the catalogue, and verify it.

    It is downloaded once and stored in the cache: $ZIGGURAT_CACHE, else ~/.cache/ziggurat. An interrupted download is
    continued by the same command. The file's path is written to standard output.

    \b
    Examples:
      ziggurat models install coder && ziggurat run --model local:coder "What is 12 * (7 + 5)?"
      ZIGGURAT_CACHE=/data/models ziggurat models install coder
    """
    from ziggurat.cli.models import install_model

    raise typer.Exit(install_model(name))


@_models.command("remove")
def models_remove(
    name: Annotated[str, typer.Argument(help="Its name in the catalogue, as listed by: ziggurat models list.")],
) -> None:
    """Delete a model of the catalogue from the cache, and what an interrupted installation of it left.

    \b
    Example:
      ziggurat models remove coder
    """
    from ziggurat.cli.models import remove_model

    raise typer.Exit(remove_model(name))


@_app.command()
def doctor(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="Test this model with one small request; may cost money."),
    ] = None,
) -> None:
    """Report what is installed, what is missing, and how to install it.

    Exit code: 0 if a model is found that can run, else 1. With --model, that model is asked for an answer of at most 16
    tokens instead: 0 if it answers, else 1 with advice. API keys are reported as set or not set, never shown.

    \b
    Examples:
      ziggurat doctor
      ziggurat doctor --model openai:gpt-5-mini
      ziggurat doctor --model openai@http://127.0.0.1:8000/v1:NAME
    """
    if model is not None:
        from ziggurat.cli.check_model import examine_model

        raise typer.Exit(examine_model(model))
    from ziggurat.cli.doctor import doctor as examine

    raise typer.Exit(examine())
