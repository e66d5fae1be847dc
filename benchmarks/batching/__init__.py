"""A model of an engine with continuous batching, in virtual time: what benchmarks of workflows and applications ask."""
