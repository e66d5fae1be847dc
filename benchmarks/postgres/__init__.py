"""The store on PostgreSQL: what it costs, and proxies that stand for a network between."""
