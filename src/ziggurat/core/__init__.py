"""The ground floor: what a service is, what travels with a call, and what is written down of it.

- The idea: `service`, `layer`, `combinator`, `facts`.
- A call: `context`, `scope`, `path`, `clock`, `event`, `stream`, `broadcast`, `shield`.
- The record: `entries`, `journal`, `recorder`, `codec`, `lines`, `reuse`; on a store: `store`, `stored`.
- What can go wrong: `errors`.

Nothing here knows of models, tools or agents.
"""
