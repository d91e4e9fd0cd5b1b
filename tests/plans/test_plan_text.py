"""The texts of plans and verdicts, as models write them."""

import pytest

from ziggurat.plans import PlannedStep
from ziggurat.plans.plan_text import read_plan, read_verdict


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("1. Do it | tool:t | expected:x", PlannedStep("Do it", "t", None, "x")),
        ("12. Do it", PlannedStep("Do it")),
        ("  3)  Do it", PlannedStep("Do it")),
        ("- **4.** Do it | tool:none", PlannedStep("Do it")),
        ("1. Do it | tool: | expected:", PlannedStep("Do it")),
        ("1. Do it |tool:t|expected:a: b | c", PlannedStep("Do it", "t", None, "a: b | c")),
        ("1. a | b | tool:t", PlannedStep("a | b", "t")),
        ("1. a | TOOL: t | Expected: x", PlannedStep("a", "t", None, "x")),
        ("1. a | tool:t | tool:u", PlannedStep("a", "t")),
        ('1. a | tool:t | arguments:{"q": "x | tool:y"} | expected:z', PlannedStep("a", "t", {"q": "x | tool:y"}, "z")),
        ('1. a | arguments:{"q": 1} more | tool:t', PlannedStep("a", "t", {"q": 1})),
        ("1. a | arguments:{q} | tool:t", PlannedStep("a", "t")),
        ('1. a | tool:t | arguments:"text"', PlannedStep("a", "t")),
        ("1. a | tool:t | arguments:" + '{"a":' * 5000, PlannedStep("a", "t")),
    ],
)
def test_a_step(text: str, step: PlannedStep) -> None:
    assert read_plan(f"Here is the plan:\n{text}\n\nGood luck.") == (step,)


@pytest.mark.parametrize(
    "text", ["", "no plan", "1.", "1. ", "1.Do it", "Step 1. Do it", "| tool:t", "1. | tool:t", "a. x"]
)
def test_lines_that_are_no_steps(text: str) -> None:
    assert read_plan(text) == ()


@pytest.mark.parametrize(
    ("reply", "achieved", "confidence"),
    [
        ("ACHIEVED 0.92\nfine", True, 0.92),
        ("achieved", True, 0.8),
        ("NOT_ACHIEVED 0.3", False, 0.3),
        ("NOT ACHIEVED", False, 0.2),
        ("not-achieved 0.7", False, 0.7),
        ("The goal was not fully achieved.", False, 0.2),
        ("It hasn't been achieved", False, 0.2),
        ("UNACHIEVED", False, 0.2),
        ("Nothing was achieved.", False, 0.2),
        ("PARTIALLY ACHIEVED 0.5", False, 0.5),
        ("It has yet to be achieved", False, 0.2),
        ("**Achieved:** No, 0.9", False, 0.9),
        ("ACHIEVED: not really", False, 0.2),
        ("ACHIEVED? No.", False, 0.2),
        ('{"achieved": false, "confidence": 0.7}', False, 0.7),
        ('{"achieved": true, "confidence": 0.7}', True, 0.7),
        ("Achieved: yes", True, 0.8),
        ("ACHIEVED: no issues", True, 0.8),
        ("ACHIEVED 0.9. No doubt.", True, 0.9),
        ("ACHIEVED\nNo issues", True, 0.8),
        ("ACHIEVED (all but one was not needed) 0.7", True, 0.7),
        ("ACHIEVED\nbut step 2 was NOT_ACHIEVED", False, 0.2),
        ("ACHIEVED 92%", True, 0.92),
        ("ACHIEVED 7", True, 1.0),
        ("ACHIEVED .5", True, 0.5),
        ("YES\n0.4", False, 0.2),
        ("", False, 0.2),
    ],
)
def test_a_verdict(reply: str, achieved: bool, confidence: float) -> None:
    verdict = read_verdict(reply)
    assert (verdict.achieved, verdict.confidence, verdict.raw_response) == (achieved, confidence, reply)


def test_only_more_than_half_is_confident() -> None:
    assert not read_verdict("ACHIEVED 0.5").is_confident_success
    assert read_verdict("ACHIEVED 0.51").is_confident_success
    assert read_verdict("ACHIEVED 0.9\n\n - late \n").issues == ("- late",)
