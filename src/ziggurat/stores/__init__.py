"""Stores for runs and sessions; `connect` opens one by its URL.

- In memory, by reference: `memory`. `running` keeps a run from being driven twice at once in this process.
- As rows of a log: `memory_rows`, `file`, `sqlite`, `postgres`.
- A conversation over many runs, on any of these: `session`.
"""
