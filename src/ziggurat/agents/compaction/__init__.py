"""Compaction: shorten the conversation of a long run; choose when, which part, and how."""
