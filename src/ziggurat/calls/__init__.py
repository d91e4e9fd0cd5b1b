"""Calls: the stages that a call goes through, each written once.

- An agent's: `enter`, with `agent_call`, the state of one entry into an agent.
- Decisions on calls that wait: `decisions`.
"""
