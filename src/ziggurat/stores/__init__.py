"""Where runs and sessions are kept; `connect` opens one by its address.

- By reference, as long as the process lasts: `memory`; `running` knows which runs go on in it.
- As rows: `memory_rows`, `file`, `sqlite`, `postgres`.
- A conversation over many runs, upon any of them: `session`.
"""
