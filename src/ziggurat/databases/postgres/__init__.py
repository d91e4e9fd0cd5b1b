"""PostgreSQL: address, connection, tables."""
