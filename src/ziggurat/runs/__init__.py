"""Runs: how a run is opened, recorded, continued, replayed and forked.

A verb of `Runnable` turns what it was given into `options`, opens the run (`opening`), and drives it to its end
(`drive`).

- What a run is given: `prompt`, `options`, with a handle `control`. What its record keeps of that: `conditions`.
- Where runs are kept: the protocol `runs`, `local` (by reference, in this process), `stored`.
- Readers in other processes: `following`, `live`, `attention`.
- The session of a run: `session_writer`.
- From outside: `sending` of events.
- From a record: `replay`, `fork`, `recovering`; what its readers get: `recorded_events`.
"""
