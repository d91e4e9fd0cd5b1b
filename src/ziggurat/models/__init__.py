"""Models: services from a `ModelRequest` to a `ModelResponse`.

- For tests and by hand: `scripted`, `function`, `replay`, with `reply`; `real` forbids all others.
- Of providers: `http` and the wires `anthropic`, `openai`, `openai_responses`; `resolve` finds one by its name,
  `windows` knows how much it reads.
- In this process: `local`; for models that only write text: `react`; vectors for texts: `embed`.
- Every question of an agent goes through `ask`, with `approval` and `pieces`.
"""
