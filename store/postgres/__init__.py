"""PostgreSQL behind the store's nouns: for many machines. Needs the extra `postgres`."""
