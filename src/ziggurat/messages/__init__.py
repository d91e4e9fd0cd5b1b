"""The nouns that flow between services, and what is told of them without anybody being asked.

- A conversation: `parts`, `message`, `conversation`, `items` with `item_codec`, `rewriting`, `recorded`; whether it
  can be sent: `sound`, `validation`, `violations`, `reasoning`.
- A question and its answer: `model` with `delta` and `partial_json`, `tool`, `canonical`, `embedding`, `facts`.
- A run: `agent`, `stops`, `usage`, `weights`, `budget`, `approval`, `events`.
- What is inherited by everything beneath: `middleware`, `hooks`.
"""
