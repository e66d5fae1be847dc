"""Do three replicas on one PostgreSQL server answer, and keep what they acknowledged, while they and it are killed?"""
