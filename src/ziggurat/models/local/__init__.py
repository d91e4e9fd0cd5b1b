"""Models that run inside this process: the demo model, and any GGUF file.

- The `demo` model chooses one tool, and fills its parameters with parts of the request (`spans`).
- Any GGUF file: `templated` shows it the conversation (`transcript`), and reads `replies` under a grammar, on the
  `engine`. Calls get only what is stated.
- The `catalogue` of models that `install` downloads by name.
"""
