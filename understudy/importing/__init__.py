"""Configurations of other gateways, put into ours."""
