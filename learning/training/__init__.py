"""Trains what the router decides with, and publishes it; workers follow what is published."""
