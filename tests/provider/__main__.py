"""Run the fake provider for a client in any language: ``python -m tests.provider --help``."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.provider import parsed, quirks
from tests.provider.script_file import Script, load_script
from ziggurat.core.errors import ConfigurationError
from ziggurat.fake_provider import FakeProvider


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.provider",
        description="A fake provider on loopback: OpenAI Chat Completions, OpenAI Responses, Anthropic Messages.",
    )
    parser.add_argument("--port", type=int, default=0, help="where to listen; any free port if not given")
    parser.add_argument("--script", type=Path, help="a JSON file with replies; says Hello to everything if not given")
    parser.add_argument(
        "--quirk",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a quirk, such as cut=120 or status=503,first=2; may be given several times",
    )
    parser.add_argument("--list", action="store_true", help="list all quirks and end")
    return parser


async def _serve(server: FakeProvider) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program: write the URL as the first line and serve until SIGINT or SIGTERM; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.list:
        for entry in quirks():
            sys.stdout.write(f"{entry.kind:15}{entry.name}({entry.settings})\n    {entry.says}\n")
        return 0
    try:
        script = Script((), always="Hello!") if options.script is None else load_script(options.script.read_bytes())
        chosen = [parsed(text) for text in options.quirk]
        server = FakeProvider(
            *script.replies, rules=script.rules, always=script.always, quirks=chosen, port=options.port
        )
        asyncio.run(_serve(server))
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
