"""SQLite: one connection, its tables, several jobs in one transaction."""
