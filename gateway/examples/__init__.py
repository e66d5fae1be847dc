"""Where an example came from, who may read it, and how it is forgotten."""
