"""The processes of a running gateway, and what each worker does beside its requests."""
