# Written by tests/test_names.py from __init__.py.
from ziggurat.http.fetcher import Fetched as Fetched
from ziggurat.http.fetcher import Fetcher as Fetcher

__all__: list[str]
