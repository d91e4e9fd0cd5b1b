"""PostgreSQL: URL, connection and tables."""
