"""Two tiny real language models, made on a CPU in minutes: a lead that knows a small world, an understudy that can copy.

`python -m benchmarks.tiny_models` builds both; docs/how-to/run-tiny-real-models.md says how, and what that means for
results got with them.
"""
