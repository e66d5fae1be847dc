"""RECEIVES: HTTP in, HTTP out. What is decided comes from the router, what is answered from an engine."""
