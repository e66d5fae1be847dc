"""Estimates from the log of decisions what another policy would have brought, with intervals."""
