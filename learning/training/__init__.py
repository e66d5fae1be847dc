"""Trains the models that the router decides with and publishes them; workers follow what is published."""
