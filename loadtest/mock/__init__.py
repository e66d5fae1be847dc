"""A mock OpenAI-compatible upstream, fast enough to stand behind any gateway under test."""
