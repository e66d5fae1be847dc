"""What does PostgreSQL cost beside SQLite, near and a millisecond away?"""
