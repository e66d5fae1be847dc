"""`understudy demo`: its settings, its gateway process, its client, its results and what it prints."""
