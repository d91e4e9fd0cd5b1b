"""Measure the functions whose names come on standard input: a line of JSON for each, with a row for each of its cases.

In a process of its own nothing but the function takes time, and the heap is not the one that other tests left behind.
"""

import json
import sys

from tests.growth import plants, room_messages, room_models, room_plans, room_teams, room_tools
from tests.growth.measure import growth

CASES = [
    *room_messages.CASES,
    *room_tools.CASES,
    *room_models.CASES,
    *room_plans.CASES,
    *room_teams.CASES,
    *plants.SQUARE,
    *plants.LINEAR,
]

if __name__ == "__main__":
    for line in sys.stdin:
        rows = [(str(case), *growth(case)) for case in CASES if case.name == line.strip()]
        print(json.dumps(rows), flush=True)
