"""Models: services from a `ModelRequest` to a `ModelResponse`.

- For tests and your own: `scripted`, `function`, `replay`, with `reply`; `real` forbids calls to all others.
- Hosted: `http`, with the wire formats `anthropic`, `openai` and `openai_responses`; `resolve` finds a model by its
  name, `windows` knows the sizes of context windows.
- In this process: `local`. For models that only write text: `react`. Embedders: `embed`. Streams
  of JSON: `brackets`.
"""
