"""Embeds texts and finds candidate examples by their embeddings."""
