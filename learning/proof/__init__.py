"""Tells the gates of new outcomes, in every worker."""
