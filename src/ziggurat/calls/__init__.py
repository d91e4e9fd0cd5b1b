"""Calls: the stages that a call goes through, each written once.

- Three stations: `model_call`, with `model_tries` and `delta_filters` for the deltas of a reply; `tool_call`; `enter`
  for agents, with `agent_call`, the state of one entry.
- What every call passes: `hooks` of middleware; the `gate`, where rules and people decide; `call_decision`, what was
  decided about a call; `admission` by budgets; what `failures` of tools lead to; calls that act `once` only, and their
  outcome.
- `step`: a function that is recorded as one call, for flows and tools; `gather`, several of them at the same time;
  `waiting` for what comes from outside: a `question` is answered, a `timer` ends, an `event` is sent to the run's
  `inbox`.
- Around them: `batch`, the tool calls of one reply; `rewrite`, changes of the conversation; `decisions` that a run
  is resumed with.
"""
