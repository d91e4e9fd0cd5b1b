"""Memory stores: in this process, in SQLite and in PostgreSQL."""
