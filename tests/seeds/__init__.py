"""Statements of llm-agent-runtime's README that concern several rooms, or that no test of a room shows.

The others are in the tests of the rooms; its programs are ports in ``examples/apps/ports/agent_runtime``.
"""
