"""An agent mends a small repository: it writes a list of tasks, searches, edits a file, and a person approves the edit.

The model is a script; with another model, such as "openai:gpt-5", the program is the same.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from ziggurat import Approvals, Approve
from ziggurat.code import Workspace, deep_agent
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

MODEL = ScriptedModel(
    tool_call("write_todos", todos=[{"content": "find the fault"}, {"content": "mend it"}]),
    tool_call("grep", text=r"def mean", regex=True, files="**/*.py"),
    tool_call("read_file", path="src/statistic.py"),
    tool_call("edit_file", path="src/statistic.py", old="/ 2", new="/ len(values)"),
    tool_call("write_todos", todos=[{"content": "find the fault", "status": "completed"}]),
    "The mean divided by 2; it divides by the number of values now.",
)


async def main() -> None:
    with TemporaryDirectory() as folder:
        source = Path(folder) / "src" / "statistic.py"
        source.parent.mkdir()
        source.write_text("def mean(values):\n    return sum(values) / 2\n")
        agent = deep_agent(
            MODEL,
            workspace=Workspace(folder),
            instructions="You mend Python programs.",
            approvals=Approvals("edit_file"),
            store=f"sqlite:///{folder}/runs.db",
        )
        run = await agent.run("The mean of 1, 2 and 3 is wrong.", run_id="mend")
        for item in run.pending:
            print(f"approve {item.call.name}? {item.shown}")
        run = await agent.resume("mend", {item.id: Approve() for item in run.pending})
        print(run.text)
        print(source.read_text())
        print((await agent.files("mend"))[".run/todo.md"])


asyncio.run(main())
