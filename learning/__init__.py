"""IMPROVES: outcomes, training, evaluation and replay, off a request's way and in processes of their own. No HTTP."""
