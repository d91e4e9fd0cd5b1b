"""How often the demo model calls the right tool with the right arguments.

    python -P benchmarks/local_requests.py [--seed N] [--json] [--failures]

Arithmetic: twelve questions made from a seed, in three phrasings each; the calculator is run and the answer must
contain its result. Requests: those of tests/data/local_*.jsonl, where tool and all arguments must be right.

``development`` is what the model was built with: English requests, ones that none of the tools serves, and ones in
other languages. Of the other sets, written for an earlier model with rules for English, seven are domains
(``home`` to ``office``) whose texts gave the weights of `models.local.spans`; the rest were only counted.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ziggurat.core.context import root
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import ToolResult, tool_message, user
from ziggurat.messages.model import ModelRequest, ModelResponse, ToolSpec
from ziggurat.models.local.demo import EmbeddedModel
from ziggurat.tools.builtin import evaluate

DATA = Path(__file__).parent.parent / "tests" / "data"
FILES = ("local_requests.jsonl", "local_domains.jsonl", "local_development.jsonl")
DOMAINS = ("home", "travel", "files", "shop", "personal", "bank", "office")
KINDS = ("oblique", "simple", "fresh", "other", "bare", "none", *DOMAINS, "development")
PHRASINGS = ("What is {}?", "Compute {}", "How much is {}?")
CALCULATOR = ToolSpec(
    "calculator",
    "Evaluate an arithmetic expression.",
    {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
)


def expressions(seed: int) -> Iterator[str]:
    """Yield twelve sums of two to four numbers, a third of them with operators in words, a third with brackets."""
    draw = random.Random(seed)
    for number in range(12):
        a, b, c, d = (draw.randint(2, 60) for _ in range(4))
        one, other = draw.choice("+-*"), draw.choice("+-*")
        if number % 3 == 0:
            yield f"{a} {one} ({b} {draw.choice('+-')} {c})"
        elif number % 3 == 1:
            yield f"{a} {one} {b} {other} {c}" if number % 2 else f"({a} {one} {b}) * ({c} - {d})"
        else:
            words = {"+": "plus", "-": "minus", "*": "times"}
            yield f"{a} {words[one]} {b}" if number % 2 else f"{a} {words[one]} {b} {words[other]} {c}"


def value_of(expression: str) -> str:
    """Return the value as the calculator tool would."""
    for word, sign in (("plus", "+"), ("minus", "-"), ("times", "*")):
        expression = expression.replace(word, sign)
    return str(evaluate(expression))


async def ask(model: EmbeddedModel, messages: Sequence[Any], tools: Sequence[ToolSpec]) -> ModelResponse:
    return await model(ModelRequest(Transcript.of(*messages), tools=tuple(tools)), root())


async def arithmetic(model: EmbeddedModel, seed: int) -> list[tuple[str, bool, str]]:
    """Return each question, whether it was answered through the tool with the right value, and the answer."""
    outcomes = []
    for expression in expressions(seed):
        for phrasing in PHRASINGS:
            question = user(phrasing.format(expression))
            called = await ask(model, [question], [CALCULATOR])
            text = called.text
            if called.tool_calls:
                call = called.tool_calls[0]
                try:
                    result = str(evaluate(str(call.parsed().get("expression"))))
                except ValueError as error:
                    result = str(error)
                answered = tool_message(ToolResult(call.id, call.name, result))
                text = (await ask(model, [question, called.message, answered], [CALCULATOR])).text
            right = re.search(rf"(?<![\d.-]){re.escape(value_of(expression))}(?![\d]|\.\d)", text) is not None
            outcomes.append((question.text, right and bool(called.tool_calls), text))
    return outcomes


def same(wanted: Any, got: Any) -> bool:
    """Return whether an argument is the expected one, ignoring case, articles and punctuation at its ends."""
    if isinstance(wanted, dict) and "any" in wanted:
        return any(same(option, got) for option in wanted["any"])
    if isinstance(wanted, dict):
        return isinstance(got, str) and all(part.lower() in got.lower() for part in wanted["contains"])
    if isinstance(wanted, str) and re.search(r"\d [-+*/%^]{1,2} [\d(]", wanted):
        try:
            return bool(evaluate(wanted) == evaluate(str(got)))
        except ValueError:
            return False
    return bool(plain(wanted) == plain(got))


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    return re.sub(r"^(?:the|an?) ", "", " ".join(str(value).strip(" .,?!").lower().split()))


def right(row: dict[str, Any], reply: ModelResponse, tools: dict[str, Any]) -> bool:
    """Return whether the reply is exactly the expected call, or no call if none is expected."""
    if row["tool"] is None or len(reply.tool_calls) != 1:
        return row["tool"] is None and not reply.tool_calls
    call = reply.tool_calls[0]
    if call.name != row["tool"]:
        return False
    properties = tools[call.name]["parameters"]["properties"]
    got, wanted = call.parsed(), row["arguments"]
    for name in got.keys() | wanted.keys():
        default = properties[name].get("default")
        if not same(wanted.get(name, default), got.get(name, default)):
            return False
    return True


def part_of(row: dict[str, Any]) -> str:
    """Return the set that a request belongs to."""
    return "development" if "language" in row else str(row["kind"])


async def requests(
    model: EmbeddedModel, show: bool = False, kinds: Sequence[str] = KINDS
) -> dict[str, tuple[int, int]]:
    """Return the numbers of right and of all requests, by kind and part."""
    rows = [json.loads(line) for name in FILES for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    sets: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["kind"] == "tool":
            sets.setdefault(row.get("set", "main"), {})[row["name"]] = row
    counts: dict[str, tuple[int, int]] = {}
    for row in (row for row in rows if row["kind"] != "tool" and part_of(row) in kinds):
        tools = sets[row.get("tools") or (row["kind"] if row["kind"] in sets else "main")]
        specs = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in tools.values()]
        reply = await ask(model, [user(row["request"])], specs)
        good = right(row, reply, tools)
        name = part_of(row)
        if name == "development":
            name = f"development {'none' if row['tool'] is None else row['language']}"
        hits, total = counts.get(name, (0, 0))
        counts[name] = (hits + good, total + 1)
        if show and not good:
            print(f"  {row['request']} -> {[(call.name, call.arguments) for call in reply.tool_calls] or reply.text}")
    return counts


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261121, help="seed of the arithmetic questions")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--failures", action="store_true", help="show which requests and questions went wrong")
    options = parser.parse_args()
    model = EmbeddedModel()
    began = time.perf_counter()
    sums = await arithmetic(model, options.seed)
    counts = {"arithmetic": (sum(good for _, good, _ in sums), len(sums)), **await requests(model, options.failures)}
    seconds = time.perf_counter() - began
    if options.failures:
        for question, _, text in (outcome for outcome in sums if not outcome[1]):
            print(f"  {question} -> {text}")
    if options.json:
        print(json.dumps({"seed": options.seed, "seconds": round(seconds, 1), "scores": counts}))
        return
    print(f"arithmetic questions from seed {options.seed}; {seconds:.1f} s in all", file=sys.stderr)
    for name, (hits, total) in counts.items():
        print(f"{name:<16} {hits:>3} of {total:>3}  {hits / total:>4.0%}")


if __name__ == "__main__":
    asyncio.run(main())
