"""Carries runs out: steps that feed each other, asked through the pipeline as any request is."""
