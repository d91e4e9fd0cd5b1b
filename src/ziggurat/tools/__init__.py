"""Tools: services from a `ToolCall` to a `ToolResult`.

- From a function: `function`, with `signature`, `inspection`, `docstring`, `parameter`, `schema` and `declared`; from a
  schema: `raw`.
- Arguments: `arguments`, `validator`, `unfolding`, `complaints`.
- A call goes through `act`, with `permissions`, `approval`, `interrupted` and `held`, to the `door`, where the user's
  code runs (`own_task`, `threads`), and comes back through `results`.
- A set of tools: `toolbox`; some to begin with: `builtin`, `arithmetic`.
"""
