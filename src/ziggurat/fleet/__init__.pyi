# Written by tests/test_names.py from __init__.py.
from ziggurat.fleet.breaker import RedisBackend as RedisBackend
from ziggurat.fleet.leader import RedisLeader as RedisLeader
from ziggurat.fleet.leader import Term as Term
from ziggurat.fleet.queue import RedisJob as RedisJob
from ziggurat.fleet.queue import RedisQueue as RedisQueue

__all__: list[str]
