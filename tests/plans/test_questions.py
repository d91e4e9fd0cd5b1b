"""Questions in graphs and plans are answered days later, by other processes."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.plans.questions import flows, main
from tests.samples import sample
from tests.stores.server import schema
from ziggurat.calls.question import ask
from ziggurat.calls.step import step
from ziggurat.core.entries import Decided
from ziggurat.core.errors import ConfigurationError
from ziggurat.layers.retry import retry
from ziggurat.messages.agent import Answer
from ziggurat.plans import Task, workflow
from ziggurat.runs.local import runs_of
from ziggurat.stores import LocalLogs, connect

EFFECTS = ("Ann", "Ben", "charge", "ship", "last")


async def processes(url: str, ledger: Path) -> dict[str, list[str]]:
    """Let processes act on both runs, days apart, this one too; return what each of the others has printed."""
    printed = {}
    for what, day in (("begin", 0), ("decided", 2), ("resumed", 5), ("again", 9)):
        if what == "decided":
            await main(what, day, url, ledger)
            continue
        command = [sys.executable, "-m", "tests.plans.questions", what, str(day), url, str(ledger)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed[what] = done.stdout.splitlines()
    return printed


@pytest.mark.parametrize("kind", sample(["sqlite", "file", "postgres"], 1))
async def test_what_is_a_step_is_done_once_and_each_answer_is_recorded_once(kind: str, tmp_path: Path) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path}/runs.db", "file": f"file://{tmp_path}/runs"}
    url, ledger = schema() if kind == "postgres" else urls[kind], tmp_path / "ledger"
    printed = await processes(url, ledger)
    assert printed["begin"] == [f"{name} Suspended ['And Ann?', 'And Ben?', 'Ship?']" for name in ("graph", "plan")]
    assert printed["resumed"] == [f"{name} Suspended ['By air?']" for name in ("graph", "plan")], "four days are over"
    shipped = ["{} charge", "Ship? decided", "{} ship", "By air? again"]
    informed = ["{} Annnobody", "{} Bennobody"]
    assert [line.replace("graph", "{}").replace("plan", "{}") for line in printed["again"]] == [
        "{} Completed []",
        str([*shipped, *informed, "{} last"]),
        "{} Completed []",
        str({"ship": shipped, "inform": informed, "last": ["{} last"]}),
    ]
    done = Counter(ledger.read_text().splitlines())
    assert done == {f"{name} {effect}": 1 for name in ("graph", "plan") for effect in EFFECTS}

    store = connect(url)
    for flow in flows(store, ledger):
        entries = (await runs_of(store).read(flow.name)).entries
        decided = Counter(entry.path for entry in entries if isinstance(entry, Decided))
        assert len(decided) == 4
        assert set(decided.values()) == {1}
    await store.close()


async def test_a_task_whose_function_waits_is_tried_again_by_its_layers_and_its_steps_are_not() -> None:
    done: list[str] = []

    @step
    async def look() -> str:
        done.append("look")
        return "seen"

    async def decide() -> str:
        seen = await look()
        done.append("try")
        if done.count("try") < 2:
            raise ConnectionError("lost")
        return f"{seen}: {await ask('Well?')}"

    plan = workflow(Task("decide", function=decide, layers=[retry(attempts=3, base=0)]), input=None, store=LocalLogs())
    run = await plan.run(run_id="r")
    assert [item.path for item in run.pending] == ["workflow/decide/ask"]
    run = await plan.resume("r", {run.pending[0].id: Answer("yes")}, strict=True)
    assert run.output.output == "seen: yes"
    assert done == ["look", "try", "try", "try"]
    assert (await plan.replay("r")).output == run.output


@pytest.mark.parametrize("as_step", [False, True])
async def test_a_task_that_acts_once_only_and_one_that_is_a_step_cannot_wait(as_step: bool) -> None:
    async def sign() -> str:
        return await ask("Sign?")

    task = Task("sign", function=step(sign)) if as_step else Task("sign", function=sign, effect="once")
    with pytest.raises(ConfigurationError, match="workflow/sign"):
        await workflow(task, input=None).run()
