"""From outcomes to better decisions: rewards, judgements, training, and proof from the log. Never on a request's way."""
