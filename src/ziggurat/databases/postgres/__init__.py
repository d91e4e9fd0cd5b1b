"""PostgreSQL: its address, one connection, its tables."""
