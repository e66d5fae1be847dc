"""ASKS, from outside: a load-test tool for any OpenAI-compatible endpoint. It imports nothing of ours."""
