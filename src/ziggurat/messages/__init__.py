"""The data that flows between services: messages, requests, responses, runs, events.

- A conversation: `parts`, `message`, `conversation`, `items` with `item_codec`, `rewriting`, `recorded`. Whether it
  can be sent to a model: `checks`, `validation`, `violations`, `reasoning`.
- A model call: `model`, with `delta` and `partial_json`, `tool`, `canonical`, `limits`, `embedding`, `facts`.
- A run: `agent`, `step`, `stops`, `usage`, `token_estimates`, `budget`, `steer`, `events`.
- Texts for people: `formatting`, `run_html`.
- What nested calls inherit: `middleware`; the agent that makes a call, as middleware sees it: `caller`.
"""
