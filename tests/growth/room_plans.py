"""The readers of plans: what models write as plans and verdicts, and references to variables."""

from tests.growth.measure import Case
from tests.growth.room_messages import over
from tests.growth.shapes import JSON, TEXT
from ziggurat.plans.executing import read_plan, read_verdict
from ziggurat.plans.variables import escaped, fill

CASES: list[Case] = [
    *over("plans.executing.read_plan", read_plan, [*TEXT, *JSON]),
    *over("plans.executing.read_plan of one step", lambda text: read_plan(f"1. a{text}"), [*TEXT, *JSON]),
    *over("plans.executing.read_plan of arguments", lambda text: read_plan(f"1. a | arguments:{text}"), [*TEXT, *JSON]),
    *over("plans.executing.read_verdict", lambda text: read_verdict(f"achieved{text}"), TEXT),
    *over("plans.variables.fill", lambda text: fill(escaped(text), {}, "x"), TEXT),
]
