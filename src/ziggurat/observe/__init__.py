"""Listeners, which change nothing.

- A run on a terminal: `console` upon a `screen`, in `wording`; `flow` and `voices` put text that streams in order.
- A run as lines: `jsonl`; in money: `price`.
"""
