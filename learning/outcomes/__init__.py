"""How good answers were: feedback, corrections, and a judge that compares a sample of them within a budget."""
