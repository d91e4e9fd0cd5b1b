"""The cost that layers add to a step of the harness's loop, compared with the plain loop of the same round.

    python benchmarks/differences.py results.jsonl

CPU time in microseconds, 50 steps a run: medians of each round, and of the differences over the rounds.
"""

import json
import statistics
import sys

PLAIN = "ziggurat"
BOUNDS = {"ziggurat+taps": 3, "ziggurat+guards": 25}


def steps(lines: list[str]) -> dict[str, dict[int, float]]:
    """Return the cost of a step, by adapter and round."""
    costs: dict[str, dict[int, float]] = {}
    for line in lines:
        result = json.loads(line)
        taken = result.get("cpu_us_per_step", {}).get("50")
        if taken and "round" in result["opts"]:
            costs.setdefault(result["adapter"], {})[result["opts"]["round"]] = statistics.median(taken)
    return costs


def main() -> None:
    """Print a line for the plain loop and each variant."""
    with open(sys.argv[1], encoding="utf-8") as file:
        costs = steps(file.readlines())
    plain = costs.get(PLAIN, {})
    if not plain:
        return
    print(f"{PLAIN:<20}{statistics.median(plain.values()):7.2f} µs a step, {len(plain)} rounds")
    for name, bound in BOUNDS.items():
        more = [cost - plain[number] for number, cost in costs.get(name, {}).items() if number in plain]
        if more:
            print(f"{name:<20}{statistics.median(more):+7.2f} µs a step (bound: {bound})")


if __name__ == "__main__":
    main()
