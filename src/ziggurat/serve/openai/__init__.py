"""The APIs of OpenAI and Anthropic: any of their clients can talk to an agent.

- `provider_routes` are the routes; `conversations` answers their requests with runs, new ones or `continuations`, and
  `client_request` is what a client adds to an agent. `speech` is what an agent says and does, in pieces, and `answers`
  how it ends; `replies` are sent in the formats.
- `stored_responses` are those given before, `recorded_responses` read from the records of their runs, which
  `recorded_speech` says again; `response_ids` name `run_places`. `response_inputs` are what comes to responses alone.
- `live_responses` are given in the background; `response_streams` are their events.
"""
