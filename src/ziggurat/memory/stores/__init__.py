"""Stores for memories: in this process, SQLite, PostgreSQL."""
