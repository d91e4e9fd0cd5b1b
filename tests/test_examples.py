"""Every example is a program that runs by itself and prints what it should."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ziggurat.models.real import FORBID_VARIABLE
from ziggurat.sandbox import Sandbox

EXAMPLES = Path(__file__).parents[1] / "examples"
LOCAL = ("first_agent.py", "memory_agent.py", "team_local.py")
"""Those that need the demo model."""

PRINTED = {
    "agent_as_tool.py": "5 model calls, 3 tool calls, 1200 tokens",
    "approval.py": "(looked)\nSuspended\n(deleted junk.tmp)\ndenied: it is needed; deleted junk.tmp\n",
    "approval_later.py": 'Suspended() waiting for {"to":"ben"}: True\nthe first decision stands: AlreadyDecided',
    "approval_rules.py": 'executed: {"amount":80,"to":"ben"}\ndecided: Deny pay\npaid 5 to ann\npaid 80 to ben\n',
    "coding_agent.py": "return sum(values) / len(values)\n\n- [x] find the fault",
    "code_book.py": "1538416 characters; 100 chapters\nCHAPTER 1\n",
    "code_mode.py": "(refunded 5)\nrefunded 30 for order 3\nrefunded 40 for order 4\nrefunded 50 for order 5\n120\n",
    "compaction.py": "of 4000: True",
    "memory.py": "known: ['Ann lives in Oslo.']\nwas: ['Ann lives in Rome.']\nforgotten: 1 left: 1\n",
    "budget.py": "BudgetExceeded after 4 calls, 4000 tokens, 4 steps\n3 searches, then: I give up",
    "durable.py": "paid Ada, as r-17:agent/step-1/tool-1:pay\nthe first process ended with 9\nnoted: Ada was paid\n",
    "first_agent.py": "The answer is 144.",
    "flow_crawl.py": "page 117 is damaged\n19900 words; fetched twice: 0",
    "flow_human.py": "Which tone? Draft: we are late.\nDear Ada, we are sorry to be late. (2 model calls)\n",
    "flow_order.py": "waits for the event 'paid'\nTrue\nFalse\nShip to Ada for 30?\nparcel for Ada\n",
    "flow_report.py": "2026-11-24: 60 in 2 of 3 shops\n2026-11-23: 60 in 2 of 3 shops (again from its record)\n",
    "flow_saga.py": "booked the hotel\ncancelled hotel-1\ncancelled flight-1\nValueError: no cars left\nTrue\n",
    "fork.py": 'sent\nsend_mail {"to":"ada@example.org","text":"Sorry!"}\nsend_mail was not run',
    "graph_branches.py": "a b b2 c d\n",
    "graph_history.py": "3 laugh socks ['where do socks go?', 'ha, 1']\nha, 1; where do keys go?; socks\n",
    "graph_in_graph.py": "begin\nouter/inner/inner/shout/ask\non ur, UR!\n",
    "graph_map.py": "a joke about lions, a joke about elephants, a joke about penguins\na joke about elephants\n",
    "graph_person.py": "drafting\nHow many stars for 'Ziggurats, in short'? *** thanks for ***\n",
    "knowledge.py": "lives in Ur. (2 lookups)\nKnowledgeGraph(3 entities, 2 relations) ['alice', 'bob', 'ur']\n",
    "layers.py": "Take an umbrella.",
    "memory_agent.py": "my train leaves at 9:40 from Lyon",
    "middleware.py": "the clerk's model saw: Ada pays with [card]",
    "mcp_tools.py": "['notes_keep']\nmcp:library/find: nothing\nmcp:notes/keep: kept as number 1\nNoted.\n",
    "plan_execute.py": "completed: Compare them: {step_1}: one is faster, the other is smaller\nachieved: True (90%)\n",
    "plan_htn.py": "not by taxi: pay cannot be done: cash is not True: it has no value\non the train to Ur\n",
    "plan_tree.py": "loop/round-2/sequence/score = 0.9\n",
    "raw_schema.py": "guests[1].name: missing (required)",
    "overload.py": "40 s  forecaster is closed\n  50 s  8 of 10 answered, 12 calls\n",
    "permissions.py": "desk: guess denied, [tool declares nothing]\nPermissionLog(checks=4, denials=2)",
    "react.py": "Tea costs 3.20.\nfailed tool calls: 1, most common action: price",
    "remote_agent.py": "asked: How many nights?\ntool: It is booked.\nanswer: Your hotel is booked.\n",
    "replay_test.py": "gone through again\nfirst divergence at agent: instructions\n- recorded: You are brief.",
    "session.py": "tea is 3.2; so far: tea, milk, tea\n15 items, 4 messages to begin with\nmilk is 1.1; so far: milk\n",
    "steering.py": "I did as told: It is made of bricks; Not there: look in Ur\nagent may not be steered by redirect",
    "stream.py": "Completed: 2 steps, 4 model calls",
    "structured_output.py": "2 x tea\n  1 x milk\nasked 2 times",
    "team_handoffs.py": "billing -> refunds: None\nrefunds: Order 17 is refunded. (4 model calls)\nrefunds: You",
    "team_chat.py": "writer: A ziggurat is a tower.\ncritic: What is it made of?\nwriter: A ziggurat is a stepped",
    "team_airline.py": "questions: It is free.\nseats: Your confirmation number?\nseats: You have 4A.\n",
    "team_background.py": "waits: background/illustrator#1-2/step-1/tool-1:buy buy\n",
    "team_discussion.py": "leader: Both say: read code, and build things.\nagreed: True\n",
    "team_ledger.py": "- researcher: 0.3 kW.\n- coder: 7.2 kWh.\nTraining for 24 hours takes 7.2 kWh. (12 model calls)",
    "team_local.py": "1. [ann] The answer is 144.\n2. [ben] The answer is snow, -3 degrees.\n3. [ann] The answer is",
    "team_networks.py": "mesh: ann says blue green red; all agree: True\n",
    "team_rounds.py": "jury: {'ann': 'red', 'ben': 'blue', 'cem': 'blue'}\nwinner of the debate: ben 1.2\n",
    "testing_an_agent.py": "4 tests passed",
}
"""What the output of each must hold."""


MEMORIES = ("9:40", "Ada", "nuts")
"""What the second process of the example with a memory must know."""


def printed_by(name: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_examples_are_known() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTED.keys()
    told = re.findall(r"^\| \[(\w+\.py)\]\((\w+\.py)\)( \*)? \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(told) == [(name, name, " *" if name in LOCAL else "") for name in sorted(PRINTED)]


def test_examples_are_short() -> None:
    texts = {name: (EXAMPLES / name).read_text(encoding="utf-8") for name in PRINTED}
    assert not [name for name, text in texts.items() if not text.startswith('"""') or len(text.splitlines()) >= 60]


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - set(LOCAL)))
def test_example_runs_offline(name: str) -> None:
    if name.startswith("code_") and (why := Sandbox.unavailable("monty")) is not None:
        pytest.skip(why)
    assert PRINTED[name] in printed_by(name, **{FORBID_VARIABLE: "1"})


@pytest.mark.local
@pytest.mark.parametrize("name", LOCAL)
def test_example_runs_on_the_demo_model(name: str) -> None:
    assert PRINTED[name] in printed_by(name, **{FORBID_VARIABLE: "0"})


@pytest.mark.local
def test_what_was_learned_in_one_process_is_used_in_another() -> None:
    lines = printed_by("memory_agent.py", **{FORBID_VARIABLE: "0"}).splitlines()
    asked, told = lines[::2], lines[1::2]
    assert [line.startswith("  I will remember: ") for line in told] == [True] * 3 + [False] * 3
    assert all("?" in question and "[1 recalled]" in question for question in asked[3:])
    for fact, question, answer in zip(MEMORIES, asked[3:], told[3:], strict=True):
        assert fact in answer
        assert fact not in question
