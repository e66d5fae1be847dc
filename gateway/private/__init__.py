"""Private banks: tenants whose own examples are never shown, and the examples written in their place."""
