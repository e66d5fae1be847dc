"""What another policy would have brought, estimated from the log of decisions, with intervals."""
