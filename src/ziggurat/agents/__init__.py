"""Agents: a model and tools in a loop; how runs are started, recorded, resumed and steered.

- The public classes: `agent`, `runnable` (run, stream, start and the like), `callbacks`, `as_tool`, `handle`;
  `blocking` runs one from code that is not async.
- A run, from outside to inside: `run_options` > `drive` > `enter` > `loop` > `step`; `frame` says which agent is
  running.
- When a loop stops: `stop`, `loop_detection`, `pricing`. What counts as an answer: `reply`, `output`.
- What changes a running loop: `rewrite` (its conversation), `steering` (from outside), `concurrent` (agents side by
  side).
- Recorded runs: `stored_runs`, `terms`, `session`. To continue one: `on_record`, with `decisions`, `replay`, `fork`
  and `checkpoints`.
- What can be added to an agent: `compaction`, `memory`, `knowledge`.
"""
