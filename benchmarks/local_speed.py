"""How fast a GGUF model is, also beside llama.cpp's own server with the same file and settings.

    python -P benchmarks/local_speed.py MODEL [--server LLAMA_SERVER] [--rounds N] [--tokens N] [--threads N]

MODEL is a file, or a name of the catalogue; LLAMA_SERVER is the program, which is started on a port of the loopback
address. In each round both are measured in turn, so that other load slows both alike; the medians are printed:

- the seconds to the first token of a prompt that was not read before, and of one that was;
- tokens per second after the first one;
- the processor time of the prompt that was not read before, and of a hundred tokens, which other load changes little;
  this process and the server together, as this process is the client of both;
- the seconds of each of ten steps of a conversation that grows, and of the last half over the first half;
- for the model in this process, the seconds from a cancellation until its slot has begun another reply that was read
  before, and the same without a cancellation.

The memory is the highest resident set of each process, this one with Python and the whole package.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

from ziggurat.core.context import root
from ziggurat.core.event import Event
from ziggurat.core.service import stack
from ziggurat.layers.retry import retry
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, user
from ziggurat.messages.model import Model, ModelRequest, ModelResponse, ModelSettings
from ziggurat.models.local.engine import Engine
from ziggurat.models.local.templated import TemplatedModel, local
from ziggurat.providers import openai

TEXT = "The lamp in room {} is on, and the door beside it is closed. "
STEPS = 10
Figures = dict[str, list[float]]


async def timed(model: Model, messages: list[Message], tokens: int) -> tuple[float, float, ModelResponse]:
    """Return the seconds to the first token, the tokens per second after it, and the reply."""
    first: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, Delta) and not first:
            first.append(time.perf_counter())

    settings = ModelSettings(max_tokens=tokens, temperature=0.0, extra={"ignore_eos": True})
    start = time.perf_counter()
    reply = await model(ModelRequest(Transcript.of(*messages), settings=settings), root().heard_by(note))
    return first[0] - start, (tokens - 1) / (time.perf_counter() - first[0]), reply


async def measure(model: Model, number: int, tokens: int, processor: Callable[[], float], figures: Figures) -> None:
    """Add the figures of one round; `processor` returns the processor time so far."""
    prompt = f"Round {number}. " + "".join(TEXT.format(room) for room in range(30))
    before = processor()
    cold, _, _ = await timed(model, [user(prompt)], 2)
    read = processor()
    cached, rate, _ = await timed(model, [user(prompt)], tokens)
    for name, value in (
        ("first token, not read before (s)", cold),
        ("first token, read before (s)", cached),
        ("tokens per second", rate),
        ("processor time, not read before (s)", read - before),
        ("processor time of 100 tokens (s)", (processor() - read) * 100 / tokens),
    ):
        figures.setdefault(name, []).append(value)
    messages: list[Message] = []
    steps = []
    for step in range(STEPS):
        messages.append(user(f"Step {number}.{step}. " + "".join(TEXT.format(room) for room in range(3))))
        start = time.perf_counter()
        messages.append((await timed(model, messages, 8))[2].message)
        steps.append(time.perf_counter() - start)
        figures.setdefault(f"step {step + 1} (s)", []).append(steps[-1])
    figures.setdefault("ten steps (s)", []).append(sum(steps))
    figures.setdefault("the last five steps over the first", []).append(sum(steps[5:]) / sum(steps[:5]))


async def cancel(engine: Engine, figures: Figures) -> None:
    """Add the times of a reply that begins after another one was left, and of one that does not wait."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "One, two,"}], "ignore_eos": True}

    async def begin(tokens: int) -> None:
        async with aclosing(engine.stream({**body, "max_tokens": tokens})) as chunks:
            async for _ in chunks:
                break

    await begin(1)
    for name in ("a reply after a cancellation (s)", "a reply after none (s)"):
        await begin(400 if "after a" in name else 1)
        start = time.perf_counter()
        await begin(1)
        figures.setdefault(name, []).append(time.perf_counter() - start)


@contextmanager
def served(program: Path, file: Path, engine: Engine) -> Iterator[tuple[Model, int]]:
    """Start llama.cpp's server with the settings of an engine; yield a model on it, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"-c": engine.context, "-np": engine.slots, "-t": engine.threads, "-tb": engine.threads, "-ngl": 0}
    command = [str(program), "-m", str(file), "--host", "127.0.0.1", "--port", str(port), "--kv-unified", "--no-webui"]
    command += [str(part) for pair in settings.items() for part in pair]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                        break
                except urllib.error.URLError:
                    time.sleep(0.2)
            model = openai(file.stem, key="none", base_url=f"http://127.0.0.1:{port}/v1")
            yield stack(model, retry(attempts=3, base=0.01)), process.pid  # it closes idle connections
        finally:
            process.terminate()


def processor_time(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def highest(process: int) -> float:
    """Return the highest resident set of a process in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def show(ours: Figures, theirs: Figures) -> None:
    """Print the medians, and the ratio of the two."""
    for name, values in ours.items():
        line = f"{name:<36} {statistics.median(values):>8.2f}"
        if name in theirs:
            other = statistics.median(theirs[name])
            line += f" {other:>8.2f} {statistics.median(values) / other:>7.2f}x"
        print(line, flush=True)


async def compare(
    model: TemplatedModel, other: Model | None, processes: Sequence[int], rounds: int, tokens: int
) -> tuple[Figures, Figures]:
    """Measure one model, or two in turn."""
    ours, theirs = Figures(), Figures()
    await asyncio.to_thread(model.engine.load)

    def processor() -> float:
        return sum(processor_time(process) for process in processes)

    for number in range(rounds):
        for each, figures in ((model, ours), (other, theirs)):
            if each is not None:
                await measure(each, number, tokens, processor, figures)
    alone = Engine(model.engine.path, slots=1, context=512)
    for _ in range(rounds):
        await cancel(alone, ours)
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--server", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    model = local(options.model)
    model = TemplatedModel(Engine(model.engine.path, threads=options.threads))
    if options.server is None:
        show(*asyncio.run(compare(model, None, [os.getpid()], options.rounds, options.tokens)))
        return
    with served(options.server, model.engine.path, model.engine) as (other, process):
        processes = [os.getpid(), process]
        figures = asyncio.run(compare(model, other, processes, options.rounds, options.tokens))
        print(f"{'':<36} {'ours':>8} {'theirs':>8}")
        show(*figures)
        print(f"memory (MB) {highest(os.getpid()):.0f}, theirs {highest(process):.0f}")


if __name__ == "__main__":
    main()
