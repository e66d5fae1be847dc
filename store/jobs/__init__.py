"""Background jobs: replay, warm prefixes, engine states, and the locks that let one process do a job."""
