"""How good answers are, found out in the background on a sample of them, within a budget."""
