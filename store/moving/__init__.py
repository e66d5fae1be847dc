"""Moving everything that is remembered from SQLite to PostgreSQL, and back, while the source is in use."""
