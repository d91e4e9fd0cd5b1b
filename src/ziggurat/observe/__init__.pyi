# Written by tests/test_names.py from __init__.py.
from ziggurat.messages.price import cost as cost
from ziggurat.observe.console import ConsoleView as ConsoleView
from ziggurat.observe.jsonl import JsonLines as JsonLines
from ziggurat.observe.price import Costs as Costs

__all__: list[str]
