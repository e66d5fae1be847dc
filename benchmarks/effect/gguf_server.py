"""One GGUF file behind llama.cpp's own server, which speaks OpenAI's API: gguf_server.py FILE PORT NAME THREADS.

Runs in the environment that benchmarks.effect.weights makes, as a script: nothing of this project is imported.
"""

import importlib
import signal
import sys

SLOTS, CONTEXT_TOKENS = 4, 3072
"""Requests at a time, and tokens of each."""


def main(path: str, port: str, name: str, threads: str) -> None:
    """Serve until the process is ended."""
    llama = importlib.import_module("xllamacpp")
    wanted = llama.CommonParams()
    wanted.model.path = path
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = int(port)
    wanted.model_alias = {name}
    wanted.n_parallel, wanted.n_ctx = SLOTS, SLOTS * CONTEXT_TOKENS
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = int(threads)
    wanted.cache_prompt = True
    wanted.n_threads_http = 4
    wanted.verbosity = 1
    server = llama.Server(wanted)
    print("listening", server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:5])
