"""Agents: a model and tools in a loop, how a run begins, is kept, goes on again and is steered.

- What it is: `agent`, `runnable` (the verbs of everything that runs), `callbacks`, `as_tool`, `handle`, `blocking`.
- The way of a run: `doors` > `drive` > `enter` > `loop` > `step`, with `frame` for who is running; `stop`,
  `repetition` and `money` say when it ends, `reply` and `output` what counts as an answer, `rewrite` and `steering`
  what changes on the way, `beside` what runs side by side.
- Runs that are kept: `stored`, `terms` and `session`; `on_record` goes on with them, through `replaying`, `forks`,
  `checkpoints` and `modified`.
- What is added to an agent: `compaction`, `remembering`, `knowledge`.
"""
