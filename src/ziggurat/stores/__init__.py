"""Stores for runs and sessions; `connect` opens one by its URL.

- In memory, by reference: `memory`. `running` prevents a run from being driven twice at once in this process.
- As rows of a log: `memory_rows`, `file`, `sqlite`, `postgres`.
- `session` has conversations over many runs, in any of these.
"""
