"""Storage: SQLAlchemy Core on SQLite."""
