"""Agents: a model and tools in a loop; the verbs that run, resume, replay, fork and steer it.

- The public classes: `agent`, `runnable` (run, stream, start, resume, replay, fork), `records` (pending, subscribe),
  `callbacks`, `as_tool`, `handle`; `blocking` runs one from code that is not async. `checkpoints` lists where a run
  can be forked.
- A run of an agent: `starter`, `loop` with its state, `loop_run`; its calls are in the room `calls`.
- When a loop stops: `stop`, `loop_detection`. What counts as an answer: `reply`, `output`,
  `output_validator`.
- What changes a running loop: `steering` (from outside), `concurrent` (agents side by side).
- What can be added to an agent: `compaction`, `memory`, `knowledge`.
"""
