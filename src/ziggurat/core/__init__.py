"""The base package: services, layers, the context of a call, and the journal of a run.

- The core idea: `service`, `layer`, `combinator`, `facts`.
- A call: `context`, `scope`, `path`, `clock`, `stopwatch`, `event`, `stream`, `broadcast`, `shield`, `containment`.
- The record of a run: `entries`, `journal`, `recorder`, `composites`, `codec`, `json_lines`, `reuse`. In a store:
  `store`, `stored_journal`, `chain`, `loss`.
- Errors: `errors`, `failures`; settings and what they may be: `settings`, `rules`; ids: `ids`; texts without hidden
  characters: `visible`; what objects can do: `protocols`.

Nothing here knows about models, tools or agents.
"""
