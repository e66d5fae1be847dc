"""Tells what two texts say in common and what not: lists of words and rules, behind the gates of semantic reuse."""
