"""The defaults of llm-agent-runtime: the same here, or in a row of docs/seeds.md that gives the reason."""

import importlib
import inspect
import re
import tomllib
from typing import Any

import pytest

import ziggurat
from tests.examples.programs import ROOT
from ziggurat import Agent, ModelSettings
from ziggurat.compaction import TokenBudget, TurnCount, entity_density
from ziggurat.layers import Gate
from ziggurat.memory import (
    ConsolidationPolicy,
    EpisodicMemory,
    LongTermMemory,
    Maintenance,
    Remembering,
    half_life,
    hybrid,
    importance,
)
from ziggurat.plans import Loop, Planner, plan_execute
from ziggurat.runtime import Bus
from ziggurat.skills import Persona, Skills
from ziggurat.teams import debate, mesh, ring, star, swarm
from ziggurat.tools import PermissionLog

REQUIRED = inspect.Parameter.empty
SAME: list[tuple[Any, str, Any]] = [
    (Agent, "model", REQUIRED),
    (Agent, "timeout", None),
    (ModelSettings, "stop", ()),
    (ModelSettings, "temperature", None),
    (ModelSettings, "max_tokens", None),
    (Remembering, "limit", 3),
    (EpisodicMemory, "score", importance),
    (EpisodicMemory, "capacity", None),
    (EpisodicMemory, "max_age", None),
    (half_life, "hours", REQUIRED),
    (hybrid, "recency_weight", REQUIRED),
    (hybrid, "frequency_weight", REQUIRED),
    (LongTermMemory, "capacity", 10_000),
    (LongTermMemory, "min_importance", 0.05),
    (LongTermMemory, "stability_days", 30.0),
    (LongTermMemory.consolidate, "threshold", 0.85),
    (ConsolidationPolicy, "min_cluster_size", 3),
    (ConsolidationPolicy, "max_age", 3600.0),
    (ConsolidationPolicy, "similarity_threshold", 0.65),
    (ConsolidationPolicy, "iterations", 10),
    (ConsolidationPolicy, "keep_recent", 2),
    (Maintenance, "interval", 300.0),
    (TokenBudget, "recent", 10),
    (TokenBudget, "threshold", 0.3),
    (TokenBudget, "importance", entity_density),
    (TurnCount, "max_turns", 50),
    (TurnCount, "recent", 10),
    (TurnCount, "window", 5),
    (TurnCount, "duplicate", 0.85),
    (Gate, "hard", REQUIRED),
    (Gate, "soft", None),
    (plan_execute, "max_steps", 20),
    (plan_execute, "stop_on_failure", True),
    (Planner, "max_depth", 16),
    (Planner, "max_steps", 256),
    (Loop, "max_rounds", REQUIRED),
    (swarm, "split", "breadth"),
    (swarm, "threshold", 1.0),
    *((topology, "rounds", 3) for topology in (star, mesh, ring)),
    (debate, "rounds", 2),
    (debate, "scoring", True),
    (debate, "max_argument_chars", 500),
    (Bus, "capacity", 256),
    (Skills.find, "min_score", 0.1),
    (Skills.find, "limit", 0),
    (Persona, "name", "unnamed"),
    (Persona, "tone", "formal"),
    (PermissionLog, "size", 1000),
]
SEEDS = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, row by row, without its own heading."""
    part = SEEDS.split(f"### {heading}\n")[1].split("\n### ")[0]
    return [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]


def named(name: str) -> Any:
    """Return what a name relative to ``ziggurat`` stands for."""
    room, _, rest = name.rpartition(".")
    return getattr(importlib.import_module(f"ziggurat.{room}") if room else ziggurat, rest)


def default_of(thing: Any, name: str) -> Any:
    return inspect.signature(thing).parameters[name].default


@pytest.mark.parametrize(("thing", "name", "value"), SAME, ids=[f"{each[0].__name__}-{each[1]}" for each in SAME])
def test_a_default_is_the_same(thing: Any, name: str, value: Any) -> None:
    assert default_of(thing, name) == value


@pytest.mark.parametrize("row", table("Defaults that differ"), ids=lambda row: row[0])
def test_a_default_that_differs_is_documented(row: list[str]) -> None:
    _, theirs, here, ours = row
    thing, name = re.findall(r"`([\w.]+)\((\w+)\)`", here)[0]
    value = re.findall(r"`([^`]+)`", ours)[0]
    assert repr(default_of(named(thing), name)) == value
    assert theirs != value


def test_a_feature_is_there_with_the_extra_that_is_documented() -> None:
    features = {}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for there, here in table("Features"):
        name, on = re.findall(r"`([\w-]+)`, (on|off)", there)[0]
        features[name] = on
        assert {*re.findall(r"extra `(\w+)`", here)} <= extras.keys()
        for each in re.findall(r"(?<!extra )`([\w.]+)`", here):
            assert named(each) is not None
    on = {name for name, state in features.items() if state == "on"}
    assert on == {"orchestrator", "memory", "graph", "wasm"}
    assert len(features) == 14


def test_an_example_there_is_an_example_here() -> None:
    rows = table("Examples")
    assert len(rows) == 10
    for _, here in rows:
        files = re.findall(r"`(examples/[\w/]+\.py)`", here)
        assert files or "](" in here
        assert all((ROOT / file).exists() for file in files)
