# Written by tests/test_names.py from __init__.py.
from ziggurat.observe.console import ConsoleView as ConsoleView
from ziggurat.observe.jsonl import JsonLines as JsonLines
from ziggurat.observe.price import Costs as Costs
from ziggurat.observe.price import cost as cost

__all__: list[str]
