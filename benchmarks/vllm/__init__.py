"""Real vLLM servers for the measurements and tests that need them: installing, starting and stopping them."""
