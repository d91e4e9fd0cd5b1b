"""How often a GGUF model makes the right calls, several at once, and fills a schema.

    python -P benchmarks/local_models.py MODEL [--requests FILE --tools FILE] [--limit N] [--failures]

MODEL is a file, or a name of the catalogue. The requests are JSON lines, by default those that were known during the
development; the tools a JSON object of lists of tools by the name of their set. A request has a `kind`: `single`,
`parallel` and `none` have the `tools` that are offered and the `calls` that are right (`name`, `arguments`, and
`accept`: other right values of an argument); `structured` has a `schema` and what is `expected`. Right means every
call, every argument and nothing more. With a `part`, as in `local_optional.jsonl` for tools with optional parameters,
the parts are counted apart: by the first the rules of `models.local.spans` were chosen, the other was only counted.
"""

import argparse
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ziggurat.core.context import root
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import user
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, OutputSchema, ToolSpec
from ziggurat.models.local.templated import TemplatedModel, local

DATA = Path(__file__).parent.parent / "tests" / "data"


def plain(value: object) -> object:
    """Return a value without what does not matter: case, spaces and punctuation at the ends of texts."""
    if isinstance(value, str):
        return " ".join(value.split()).strip(" .,!?").casefold()
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value if isinstance(value, bool) or not isinstance(value, int) else float(value)


def fits(
    wanted: Mapping[str, Any], got: Mapping[str, Any], accept: Mapping[str, Any], schema: Mapping[str, Any]
) -> bool:
    """Return whether all arguments are right; one that was left out counts as its default."""
    for name in wanted.keys() | got.keys():
        default = schema.get("properties", {}).get(name, {}).get("default")
        right = [wanted.get(name, default), *accept.get(name, ())]
        if plain(got.get(name, default)) not in [plain(value) for value in right]:
            return False
    return True


def right(row: dict[str, Any], reply: ModelResponse, tools: Mapping[str, ToolSpec]) -> bool:
    """Return whether a reply is what a row expects."""
    if row["kind"] == "structured":
        try:
            return fits(row["expected"], json.loads(reply.text), row.get("accept", {}), row["schema"])
        except ValueError:
            return False
    wanted = list(row["calls"])
    for call in reply.tool_calls:
        found = next(
            (
                each
                for each in wanted
                if each["name"] == call.name
                and fits(each["arguments"], call.parsed(), each.get("accept", {}), tools[call.name].parameters)
            ),
            None,
        )
        if found is None:
            return False
        wanted.remove(found)
    return not wanted and bool(reply.tool_calls or reply.text)


async def ask(model: TemplatedModel, row: dict[str, Any], tools: Mapping[str, ToolSpec]) -> ModelResponse:
    """Ask the model one request, with the tools or the schema of its row."""
    messages = Transcript.of(user(row["request"]))
    if row["kind"] == "structured":
        return await model(ModelRequest(messages, output=OutputSchema("answer", row["schema"])), root())
    settings = ModelSettings(max_tokens=60) if row["kind"] == "none" else ModelSettings()
    return await model(ModelRequest(messages, tools=tuple(tools.values()), settings=settings), root())


async def score(model: TemplatedModel, rows: list[dict[str, Any]], sets: Mapping[str, Any], show: bool) -> None:
    """Print how many requests of each kind are answered right."""
    counts: dict[str, list[int]] = {}
    for row in sorted(rows, key=lambda row: str(row.get("tools"))):  # so that the tools of a set are read once
        specs = sets.get(row.get("tools") or "", ())
        tools = {spec["name"]: ToolSpec(spec["name"], spec["description"], spec["parameters"]) for spec in specs}
        reply = await ask(model, row, tools)
        ok = right(row, reply, tools)
        for name in (row["kind"], f"{row['kind']} {row.get('part') or row.get('language', 'en')}"):
            count = counts.setdefault(name, [0, 0])
            count[0] += ok
            count[1] += 1
        if show and not ok:
            calls = ", ".join(f"{call.name}({call.arguments})" for call in reply.tool_calls)
            print(f"{row['kind']}: {row['request']}\n    {calls or reply.text}", flush=True)
    for name, (good, asked) in sorted(counts.items()):
        print(f"{name:<18} {good:>4} of {asked:>4}  {good / asked:>4.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--requests", type=Path, default=DATA / "local_calls.jsonl")
    parser.add_argument("--tools", type=Path, default=DATA / "local_call_tools.json")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--failures", action="store_true")
    options = parser.parse_args()
    model = local(options.model)
    rows = [json.loads(line) for line in options.requests.read_text(encoding="utf-8").splitlines()][: options.limit]
    asyncio.run(score(model, rows, json.loads(options.tools.read_text(encoding="utf-8")), options.failures))


if __name__ == "__main__":
    main()
