"""Recursive language models: a scripted coder reads contexts of any length, under limits, and goes on after a crash."""

import asyncio
import json
import random
import resource
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct, to_builtins

from tests.code.reading import ASKED, reader
from tests.samples import LONG, amount, sample
from ziggurat import AgentRun, Approve, Budget, Message, ModelRequest, ModelResponse, Text, Usage, tool
from ziggurat.agents import Output
from ziggurat.code import recursive_agent
from ziggurat.errors import ConfigurationError
from ziggurat.messages import tool_call
from ziggurat.sandbox import Sandbox
from ziggurat.stops import BudgetExceeded, Completed, StopCondition, Suspended, ToolCalled
from ziggurat.testing import ScriptedModel

_WHY = Sandbox.unavailable("monty")
pytestmark = pytest.mark.skipif(_WHY is not None, reason=f"monty: {_WHY}")
SIZE = amount(200_000, 10_000_000)
WORDS = ["river", "stone", "window", "letter", "garden", "copper", "silent", "harbour"]


def haystack(size: int, seed: int, lines: list[str]) -> str:
    """Return a text of about so many characters, with lines at random places."""
    draw = random.Random(seed)
    page = "\n".join(" ".join(draw.choices(WORDS, k=12)) for _ in range(1_000))
    pages = [page] * max(1, size // len(page))
    for line in lines:
        at = draw.randrange(len(pages))
        pages[at] = f"{pages[at]}\n{line}"
    return "\n".join(pages)


async def written(programs: list[str], context: Any, **arguments: Any) -> AgentRun[Any]:
    """Return the run of a coder that writes these programs."""
    return await recursive_agent(_Coder(*programs), context, sub_model=_answer, **arguments).run("The question")


class _Coder:
    """Writes programs one after another, then answers with the last result."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs
        self.largest = 0

    async def __call__(self, request: ModelRequest, ctx: Any, /) -> ModelResponse:
        self.largest = max(self.largest, request.messages.size())
        results = [result.text for message in request.messages for result in message.tool_results]
        last: Any = Text(f"answer: {results[-1] if results else ''}")
        if len(results) < len(self.programs) and request.tools:
            last = tool_call("run_code", code=self.programs[len(results)])
        return ModelResponse(Message("assistant", (last,)), usage=Usage(input=100, output=10, requests=1))


async def _answer(request: ModelRequest, ctx: Any) -> ModelResponse:
    """Answer as a sub-model: the mood in each line, or the number after "code"."""
    text = request.messages[-1].text
    if "fail" in text:
        raise ValueError("broken")
    words = text.split()
    found = words[words.index("code") + 2] if "code" in words else ("glad" if "smile" in text else "sad")
    return ModelResponse(Message("assistant", (Text(found),)), usage=Usage(input=len(words), output=1, requests=1))


async def test_a_needle_is_found() -> None:
    context = haystack(SIZE, 1, ["the code is 73912 today"])
    programs = [
        "print(len(context), context[:50])",
        "import re\nfound = [m.start() for m in re.finditer('code is', context)]\nlen(found)",
        "submit(llm_query('Which code? ' + context[found[0] - 40:found[0] + 40]))",
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = await written(programs, context)
    assert run.output == "73912"
    assert run.stop == ToolCalled("run_code")
    if LONG:
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 3 * len(context)


_SPLIT = "rows = [line for line in context.split('\\n') if line.startswith('user')]\nlen(rows)"
_JUDGE = "moods = llm_query_batched(['Mood? ' + row for row in rows])\nsum(mood == 'glad' for mood in moods)"


def _diary(count: int) -> tuple[list[str], list[bool]]:
    draw = random.Random(2)
    glad = [draw.random() < 0.4 for _ in range(count)]
    return [f"user {n}: {'I had to smile' if each else 'I wept'}" for n, each in enumerate(glad)], glad


async def test_lines_are_counted_by_their_meaning() -> None:
    rows, glad = _diary(amount(20, 200))
    run = await written([_SPLIT, _JUDGE], haystack(SIZE, 2, rows), queries=200)
    assert run.output == f"answer: {sum(glad)}"


async def test_pairs_are_found_by_the_meaning_of_both() -> None:
    rows, glad = _diary(amount(20, 200))
    pairs = (
        "users = [int(row.split()[1][:-1]) for row in rows]\n"
        "same = [sorted([a, b]) for i, a in enumerate(users) for j, b in enumerate(users)"
        " if i < j and moods[i] == moods[j]]\nsubmit(len(same))"
    )
    run = await written([_SPLIT, _JUDGE, pairs], haystack(SIZE, 3, rows), queries=200)
    happy = sum(glad)
    assert run.output == (happy * (happy - 1) + (len(glad) - happy) * (len(glad) - happy - 1)) // 2


async def test_no_request_has_the_context() -> None:
    coder = _Coder("print(context)", "context", "llm_query('short')")
    context = haystack(SIZE, 4, [])
    await recursive_agent(coder, context, sub_model=_answer).run("The question")
    assert coder.largest < 30_000 < len(context)


async def test_several_variables_have_their_types() -> None:
    run = await written(
        ["submit([len(book), years[1], flag['x']])"], {"book": "abc", "years": [1, 2], "flag": {"x": None}}
    )
    assert run.output == [3, 2, None]


async def test_the_answer_is_asked_for_when_the_steps_are_used_up() -> None:
    run = await written(["print(1)"] * 9, "text", max_steps=3)
    assert run.output == "answer: 1"
    assert isinstance(run.stop, StopCondition)
    assert run.steps == 3


async def test_the_text_of_the_model_is_an_answer() -> None:
    run = await written([], "text")
    assert (run.output, run.stop) == ("answer: ", Completed())


async def test_failures_of_queries_are_for_the_program() -> None:
    programs = [
        "llm_query_batched(['a', 'fail', 'smile'])",
        "try:\n    llm_query('fail')\nexcept RuntimeError as error:\n    print('caught')",
        "print(llm_query_batched([]), llm_query_batched(inputs=['smile']))",
    ]
    texts: list[str] = []
    for number in range(3):
        texts.append(str((await written(programs[: number + 1], "x")).output))
    assert '["sad", "[ERROR]' in texts[0]
    assert "caught" in texts[1]
    assert "[] ['glad']" in texts[2]


async def test_queries_are_limited_together() -> None:
    run = await written(
        ["a = llm_query_batched(['x'] * 4)\nllm_query('y')\nb = llm_query_batched(['x', 'y'])\nb"], "x", queries=6
    )
    assert "[ERROR]" in run.output
    assert run.usage_by_model
    assert sum(usage.requests or 0 for usage in run.usage_by_model.values()) == 2 + 6


async def test_a_batch_is_no_larger_than_the_calls_of_a_program() -> None:
    run = await written(["llm_query_batched(['x'] * 3 + ['y'] * 1_000)"], "x", queries=10)
    assert "RuntimeError" in run.output
    assert run.model_calls == 2


async def test_a_bomb_of_costs_stops_within_one_call() -> None:
    bomb = "while True:\n    try:\n        llm_query('a b c d e')\n    except Exception:\n        pass"
    budget = Budget(cost=1.0, price=lambda model, usage: 0.1)
    run = await written([bomb] * 5, "x", budget=budget, queries=10_000)
    assert isinstance(run.stop, BudgetExceeded)
    assert sum(usage.requests or 0 for usage in run.usage_by_model.values()) <= 10


async def test_a_bomb_of_recursion_ends_at_its_depth() -> None:
    asked: list[int] = []

    async def model(request: ModelRequest, ctx: Any) -> ModelResponse:
        asked.append(ctx.path.count("rlm_query"))
        results = request.messages[-1].tool_results
        part = Text("bottom") if results else tool_call("run_code", code="submit(rlm_query('again', context))")
        return ModelResponse(Message("assistant", (part,)))

    run = await recursive_agent(model, "text", sub_model=_answer, depth=3).run("Go")
    assert run.output == "bottom"
    assert max(asked) == 2
    wide = "x = [rlm_query('again', context) for _ in range(100)]"

    async def many(request: ModelRequest, ctx: Any) -> ModelResponse:
        results = request.messages[-1].tool_results
        return ModelResponse(Message("assistant", (Text("end") if results else tool_call("run_code", code=wide),)))

    run = await recursive_agent(many, "text", sub_model=_answer, depth=4, queries=10).run("Go")
    assert run.tool_calls < 60


async def test_a_program_that_loses_its_session_leaves_the_context() -> None:
    sandbox = Sandbox(seconds=0.3, output=10_000)
    programs = [
        "x = 1",
        "while True:\n    pass",
        "try:\n    print(x)\nexcept NameError:\n    print('gone', context)",
        "y = 2",
        "submit(y + 1)",
    ]
    run = await written(programs[:3], "text", sandbox=sandbox)
    assert "gone text" in run.output
    assert (await written(programs, "text", sandbox=sandbox)).output == 3


async def test_tools_and_people_are_asked_within_programs() -> None:
    @tool(approval=True, effect="once")
    async def buy(title: str) -> str:
        """Buy a book."""
        return f"bought {title}"

    programs = ["n = len(context)", "try:\n    print(buy('a'))\nexcept PermissionError:\n    print('no')", "submit(n)"]
    agent = recursive_agent(_Coder(*programs), "text", tools=[buy])
    run = await agent.run("Go")
    assert run.stop == Suspended()
    run = await agent.resume(run.id, {run.pending[0].id: Approve()})
    assert run.output == 4


@pytest.mark.parametrize("dies_at", [3, 6] if LONG else [6])
async def test_a_killed_run_goes_on_without_repeating_its_queries(dies_at: int, tmp_path: Path) -> None:
    store, log = f"sqlite:///{tmp_path}/runs.db", tmp_path / "log"
    command = [sys.executable, "-m", "tests.code.reading", store, str(log), str(dies_at)]
    killed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr
    run = await reader(store, log).resume("r")
    assert run.output == [f"<{each}>" for each in ASKED]
    lines = log.read_text().splitlines()
    assert sorted(set(lines)) == sorted(ASKED)
    assert all(lines.count(each) == 1 for each in ASKED[: dies_at - 1])


class Place(Struct, frozen=True):
    name: str
    founded: date


_ROME = Place("Rome", date(2026, 4, 21))
_TYPED = [(Place, _ROME), (list[Place], [_ROME]), (date, _ROME.founded), (dict[str, int], {"a": 1}), (int | None, 7)]


@pytest.mark.parametrize("mode", ["tool", "prompted"])
@pytest.mark.parametrize("way", ["submit", "reply", "extract"])
@pytest.mark.parametrize(("kind", "value"), sample(_TYPED, 3))
async def test_answers_have_their_type_and_those_that_do_not_fit_are_refused(
    kind: Any, value: Any, way: str, mode: Literal["tool", "prompted"], tmp_path: Path
) -> None:
    data = to_builtins(value, builtin_types=())
    whole = data if kind in (Place, dict[str, int]) else {"value": data}
    wrong = {"a": "x"}
    answers = [tool_call("final_answer", **each) if mode == "tool" else json.dumps(each) for each in (wrong, whole)]
    codes = [f"print(1)\nsubmit({each!r})" for each in (["x", 7.5], None, data)]
    programs = [tool_call("run_code", code=each) for each in codes]
    scripts: dict[str, list[Any]] = {"submit": programs, "reply": answers, "extract": [*programs[:2], *answers]}
    replies = scripts[way]
    model = ScriptedModel(*replies, per_run=True)
    steps, store = 2 if way == "extract" else 3, f"sqlite:///{tmp_path}/runs.db"
    agent = recursive_agent(model, "text", output=Output(kind, mode=mode), max_steps=steps, store=store)
    run = await agent.run("Go", run_id="r")
    assert (run.output, type(run.output)) == (value, type(value))
    assert run.model_calls == len(replies)
    refused = [text for text in run.observations if "ValueError" in text]
    assert len(refused) == {"submit": 2, "reply": 0, "extract": 2}[way]
    assert (await agent.replay("r")).output == value
    assert (await agent.resume("r")).output == value


async def test_without_a_context_programs_do_a_task() -> None:
    coder = _Coder("x = 6", "submit(x * 7)")
    agent = recursive_agent(coder, {}, output=int)
    run = await agent.run("What is six times seven?")
    assert (run.output, run.model_calls) == (42, 2)


@pytest.mark.parametrize("context", [{"a-b": "x"}, {"submit": "x"}, {"llm_query": "x"}])
def test_variables_that_cannot_be_are_refused(context: Any) -> None:
    with pytest.raises(ConfigurationError):
        recursive_agent(_answer, context)


async def test_a_fork_finds_the_variables_of_the_steps_before(tmp_path: Path) -> None:
    coder = _Coder("x = [llm_query('smile')]", "x.append(llm_query('weep'))", "submit(x)")
    agent = recursive_agent(coder, "text", sub_model=_answer, store=f"sqlite:///{tmp_path}/runs.db")
    run = await agent.run("Go", run_id="r")
    assert run.output == ["glad", "sad"]
    assert (await agent.replay("r")).output == run.output
    forked = await agent.fork("r", at=3)
    assert forked.output == run.output
    assert forked.steps == 3
