"""Agents as servers of the Agent2Agent protocol."""
