"""Stores for runs and sessions; `connect` opens one by its URL.

- Logs of rows: `local` (in this process), `file`, `sqlite`, `postgres`.
- `session` has conversations over many runs, in any of these.
"""
