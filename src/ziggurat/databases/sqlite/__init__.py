"""SQLite: connection, tables, and jobs that share a transaction."""
