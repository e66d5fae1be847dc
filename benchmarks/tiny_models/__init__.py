"""Two tiny real language models, made on a CPU in minutes: a lead that knows a small world, an understudy that can copy.

`python -m benchmarks.tiny_models` builds both; docs/experiments/understudy-effect.md says what that means for results
got with them.
"""
