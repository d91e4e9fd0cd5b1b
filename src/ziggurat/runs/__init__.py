"""Runs: how a run is opened, recorded, continued, replayed and forked.

A verb of `Runnable` turns what it was given into `options`, opens the run (`opener`, `opening`), and drives it to its
end (`drive`).

- What a run is given: `prompt`, `options`. What its record keeps of that: `conditions`. How it is steered: `control`.
- Where runs are kept: the protocol `runs`, `local` (by reference, in this process), `stored`.
- Other processes: their readers (`following`, `live`), and the runs of this one, which serve them (`driven`).
- The session of a run: `session_writer`.
- From outside: `sending` of events and requests, `deciding`.
- From a record: `replay`, `fork`, `recovering`; what its readers get: `recorded_events`.
"""
