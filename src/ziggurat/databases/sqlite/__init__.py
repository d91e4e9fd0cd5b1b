"""SQLite: connection, tables, several jobs in one transaction."""
