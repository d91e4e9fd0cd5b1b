# Written by tests/test_names.py from __init__.py.
from ziggurat.serve.application import ServedApp as ServedApp
from ziggurat.serve.application import app as app

__all__: list[str]
