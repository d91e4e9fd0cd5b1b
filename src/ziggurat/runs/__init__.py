"""Runs: how a run is opened, recorded, continued, replayed and forked.

- What a run is given: `prompt`, `options`; what its record keeps of that: `conditions`.
- Where runs are kept: `stored`.
- The session of a run: `session_writer`.
- From its root to its end: `drive`. From its record: `replay`, `fork`.
"""
