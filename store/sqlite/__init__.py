"""The SQLite database: connections, the writing thread, migrations, full-text search."""
