"""Which engine to ask: contextual bandit, reward, load, exploration, quality floor."""
