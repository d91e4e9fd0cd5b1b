"""What runs, steps and calls cost beside a bare loop and beside other runtimes.

    python -m benchmarks.overhead [--full] [--python PYTHON] [--only SIDE ...] [--workload NAME ...]

Run it from the root of the project. Each figure is the median of rounds, with the least and the greatest, and the
median of its ratios to the floor of the same round; a round is a process of its own for each side, in turns. Runtimes
that are not installed, here or for a Python that `--python` names, are skipped.
"""

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from benchmarks.sides import DONE, SIDES, WORKLOADS, Figures, side

PEERS = {
    "pydantic_ai": "'pydantic-ai-slim[openai]'",
    "langchain": "langchain langchain-openai",
    "openai_agents": "openai-agents",
    "agno": "agno openai",
}
"""Other runtimes, and what installs them."""


# -- the provider ----------------------------------------------------------------------------------------------------


@cache
def reply(turns: int, pieces: int, turn: int, stream: bool) -> bytes:
    """Return the reply to a request with so many results of tools: a call of the tool, or the last text."""
    call = {"name": "add", "arguments": json.dumps({"a": turn, "b": 1})}
    made = [{"index": 0, "id": f"call-{turn}", "type": "function", "function": call}] if turn < turns else []
    end = "tool_calls" if made else "stop"
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    head = {"id": "reply", "created": 1, "model": "model"}

    def body(kind: str, *choices: object) -> bytes:
        shown = {**head, "object": kind, "choices": choices, "usage": None if stream and choices else usage}
        return json.dumps(shown).encode()

    if not stream:
        message = {"role": "assistant", "content": None if made else DONE} | ({"tool_calls": made} if made else {})
        plain = body("chat.completion", {"index": 0, "message": message, "finish_reason": end})
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(plain) + plain
    deltas: list[tuple[object, str | None]] = [({"role": "assistant", "content": DONE}, None)] * pieces + [({}, end)]
    events = [
        body("chat.completion.chunk", {"index": 0, "delta": delta, "finish_reason": finish}) for delta, finish in deltas
    ]
    framed = [b"data: %b\n\n" % event for event in (*events, body("chat.completion.chunk"), b"[DONE]")]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in framed)
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return start + chunks + b"0\r\n\r\n"


async def provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection; a model's name says how many turns and how many pieces it has."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r")[0])
            asked = json.loads(await reader.readexactly(length))
            turns, pieces = map(int, asked["model"].split("."))
            turn = sum(message["role"] == "tool" for message in asked["messages"])
            writer.write(reply(turns, pieces, turn, bool(asked.get("stream"))))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve() -> None:
    """Print the address and serve until the end."""
    server = await asyncio.start_server(provide, "127.0.0.1", 0, limit=2**24)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


@contextmanager
def provider() -> Iterator[str]:
    """Serve in a process of its own; yields the address."""
    command = [sys.executable, "-m", "benchmarks.overhead", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


# -- rounds and tables -----------------------------------------------------------------------------------------------


def measured(python: str, name: str, workload: str, url: str, full: bool) -> Figures:
    """Measure one workload of one side in a new process."""
    command = [python, "-m", "benchmarks.overhead", "--measure", name, workload, url, *(["--full"] if full else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def installed(wanted: list[str], pythons: list[str]) -> dict[str, str]:
    """Return the Python for each side that can be measured, and print what installs the others."""
    found = {name: sys.executable for name in SIDES if name == "floor" or name in wanted}
    for peer, packages in PEERS.items():
        if peer not in wanted:
            continue
        for python in pythons:
            try:
                measured(python, peer, "start", "", full=False)
                found[peer] = python
                break
            except RuntimeError as error:
                reason = error
        else:
            print(f"skipped: {peer}; pip install {packages}  ({reason})")
    return found


def table(workload: str, rounds: dict[str, list[Figures]]) -> None:
    """Print the figures of a workload for all sides, beside those of the floor."""
    print(f"\n{workload}: {(WORKLOADS[workload].__doc__ or '').strip()}")
    for name in rounds["floor"][0]:
        print(f"  {name}")
        floors = [figures[name] for figures in rounds["floor"]]
        for side_name, taken in rounds.items():
            values = [figures[name] for figures in taken]
            ratio = statistics.median(value / (floor or math.nan) for value, floor in zip(values, floors, strict=True))
            spread = f"[{min(values):.4g} - {max(values):.4g}]"
            print(f"    {side_name:14}{statistics.median(values):>10.4g}  {spread:22}{ratio:>8.1f} x floor")


def compare(args: argparse.Namespace) -> None:
    """Measure the sides in turns and print a table for each workload."""
    sides = installed(args.only, [sys.executable, *args.python])
    with provider() as url:
        for workload in args.workload:
            rounds: dict[str, list[Figures]] = {name: [] for name in sides}
            for number in range(9 if args.full else 3):
                for name in list(sides) if number % 2 else reversed(sides):
                    rounds[name].append(measured(sides[name], name, workload, url, args.full))
            table(workload, rounds)


def main() -> None:
    """Compare, or be one of the processes for that."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more rounds, steps and runs")
    parser.add_argument("--python", action="append", default=[], help="a Python that has other runtimes")
    parser.add_argument("--only", nargs="+", choices=[*SIDES, *PEERS], default=[*SIDES, *PEERS])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve())
    elif args.measure:
        name, workload, url = args.measure
        print(json.dumps(asyncio.run(WORKLOADS[workload](side(name), args.full, url))))
    else:
        compare(args)


if __name__ == "__main__":
    main()
