"""Which examples to send: features, scorer, prior, and the combination of several."""
