"""What PostgreSQL is tried with: proxies in front of it, and how fast the store is on it."""
