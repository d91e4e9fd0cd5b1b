"""An agent on the demo model: one process learns facts, another recalls them. Needs: pip install 'ziggurat[local]'.

python examples/memory_agent.py sqlite:///notes.db "Remember that my train leaves at 9:40."
python examples/memory_agent.py sqlite:///notes.db "Can you recall when my train leaves?"
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from ziggurat import Agent
from ziggurat.memory import Remembering, memory_tools
from ziggurat.models import resolve_embedder

FACTS = (
    "Remember that my train leaves at 9:40 from Lyon.",
    "Remember that my sister is called Ada.",
    "Remember that I am allergic to nuts.",
)
QUESTIONS = (
    "Can you recall when my train leaves?",
    "Can you recall my sister?",
    "Can you recall what I am allergic to?",
)


def ask(store: str, questions: list[str]) -> None:
    memory = Remembering(store, "me", limit=1, embedder=resolve_embedder("local"))
    remember, recall, *_ = memory_tools()
    for question in questions:
        # The demo model only calls tools: it learns with one, and answers with the other.
        tools = [recall] if question.endswith("?") else [remember]
        agent = Agent("demo", tools=tools, middleware=[memory])
        run = agent.run_sync(question)
        print(f"{question}  [{run.memory_hits} recalled]\n  {run.text.splitlines()[0]}", flush=True)


def main() -> None:
    if len(sys.argv) > 2:
        ask(sys.argv[1], sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'memory.db'}"
        for said in (FACTS, QUESTIONS):  # each in its own process
            subprocess.run([sys.executable, __file__, store, *said], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
