"""Questions of the tasks of plans."""

import pytest

from ziggurat.calls.question import ask
from ziggurat.calls.step import step
from ziggurat.core.errors import ConfigurationError
from ziggurat.layers.retry import retry
from ziggurat.messages.agent import Answer
from ziggurat.plans import Task, workflow
from ziggurat.stores import LocalLogs


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
