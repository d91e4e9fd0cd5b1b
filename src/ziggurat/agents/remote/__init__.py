"""Agents on other servers."""
