"""The learner's process, and how its workers follow what it publishes. What learning is stands in router.learning."""
