"""Listeners: they report what happens in a run and change nothing.

- On a terminal: `console`, written to a `screen`, with the texts of `formatting`; `line_wrapper` wraps text that
  streams in, `multiplexer` shows several models that answer at the same time.
- As lines of JSON: `jsonl`. As money: `price`.
"""
