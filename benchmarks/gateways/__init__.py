"""Gateways to compare with: how each is found, configured, started, watched and stopped."""
