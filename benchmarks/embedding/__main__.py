"""What an embedding costs, and what int8 costs in agreement: `python -m benchmarks.embedding`.

Speed: CPU milliseconds of this process per text by length in tokens, int8 and f32 in alternation on one
thread. Agreement: int8 against f32 over the docstrings of the standard library, which are real sentences of
many lengths that every machine has. CPU time is what to compare; wall time is what else the machine was
doing.
"""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks.options import options, write
from router.embedding import minilm_onnx
from router.embedding import model as embedding_model
from router.embedding.onnx_session import OnnxSession

LENGTHS = (16, 32, 64, 128, 256)
MODULES = [
    *("argparse", "asyncio", "collections", "csv", "datetime", "email.message", "http.client"),
    *("json", "logging", "os", "pathlib", "random", "sqlite3", "statistics"),
    *("string", "subprocess", "tarfile", "urllib.parse", "zipfile"),
]
START = """
import os, sys, time
begun = time.perf_counter()
from pathlib import Path
from router.embedding.embedder import Embedder
embedder = Embedder.open(sys.argv[1], Path(sys.argv[2]))
ready_s = time.perf_counter() - begun
for n in range(50):
    embedder.embed_blocking(f"text number {n} " * 5 * (n % 10 + 1))
print(ready_s, int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
embedder.close()
"""


def main() -> None:
    """Prints the tables; with --json also writes them."""
    arguments = options(__doc__)
    arguments.add_argument("--source", default="package", help="package, folder:PATH or hub:OWNER/NAME")
    arguments.add_argument("--runs", type=int, default=30, help="timed runs per length")
    arguments.add_argument("--texts", type=int, default=400, help="texts to compare int8 with f32 on")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(chosen.source, Path(folder), chosen.runs, chosen.texts)
    show(figures)
    write(figures, chosen.json)


def measure(source: str, folder: Path, runs: int, texts: int) -> dict[str, Any]:
    """Every figure, as JSON; builds its models in `folder`."""
    begun = time.perf_counter()
    model = embedding_model.prepare(source, folder / "cache")
    build_s = time.perf_counter() - begun
    onnx.save(minilm_onnx.read_graph(embedding_model.locate(source)), folder / "f32.onnx")
    sessions = {
        "int8": OnnxSession(model.model, name="int8"),
        "f32": OnnxSession(folder / "f32.onnx", name="f32"),
    }
    try:
        start = subprocess.run(
            [sys.executable, "-c", START, source, str(folder / "cache")],
            capture_output=True,
            text=True,
            check=True,
        )
        ready_s, resident_mib = map(float, start.stdout.split())
        return {
            "version": model.version,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            "onnxruntime": onnxruntime.__version__,
            "build_s": build_s,
            "ready_s": ready_s,
            "resident_mib": resident_mib,
            "size_mib": {"int8": size_mib(model.model), "f32": size_mib(folder / "f32.onnx")},
            "cpu_ms": speed(sessions, runs),
            "agreement": agreement(sessions, model.tokenizer, texts),
        }
    finally:
        for session in sessions.values():
            session.close()


def speed(sessions: dict[str, OnnxSession], runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """Median and 90th percentile of CPU ms per text, per format and length."""
    generator = np.random.default_rng(0)
    result: dict[str, dict[str, dict[str, float]]] = {name: {} for name in sessions}
    for length in LENGTHS:
        ids = generator.integers(1000, 20_000, (1, length))
        spent: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(runs + 3):
            for name, session in sessions.items():
                before = time.process_time()
                infer(session, ids)
                spent[name].append((time.process_time() - before) * 1000)
        for name, each in spent.items():
            p50, p90 = np.quantile(each[3:], [0.5, 0.9])
            result[name][str(length)] = {"p50": float(p50), "p90": float(p90)}
    return result


def agreement(sessions: dict[str, OnnxSession], tokenizer_file: Path, count: int) -> dict[str, float]:
    """How far int8 vectors and their neighbours are from f32's."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    texts = docstrings(count)
    ids = [np.array([tokenizer.encode(text[:1500]).ids], np.int64) for text in texts]
    vectors = {name: np.vstack([infer(session, each) for each in ids]) for name, session in sessions.items()}
    cosines = (vectors["int8"] * vectors["f32"]).sum(1)
    served, exact = (vectors[name] @ vectors[name].T for name in ("int8", "f32"))
    errors = np.abs(served - exact)[~np.eye(len(ids), dtype=bool)]
    nearest = []
    for similarities in (served, exact):
        np.fill_diagonal(similarities, -1)
        nearest.append(np.argsort(-similarities, axis=1)[:, :10])
    overlap = [len({*a} & {*b}) / 10 for a, b in zip(*nearest, strict=True)]
    return {
        "texts": len(ids),
        "tokens_mean": float(np.mean([each.size for each in ids])),
        "cosine_mean": float(cosines.mean()),
        "cosine_min": float(cosines.min()),
        "neighbours_10_same": float(np.mean(overlap)),
        "nearest_same": float((nearest[0][:, 0] == nearest[1][:, 0]).mean()),
        "similarity_error_mean": float(errors.mean()),
        "similarity_error_p99": float(np.quantile(errors, 0.99)),
    }


def docstrings(count: int) -> list[str]:
    """Distinct docstrings of standard library classes and functions, in a fixed shuffle."""
    found = set()
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and len(text) > 30:
                found.add(text)
    texts = sorted(found)
    np.random.default_rng(0).shuffle(texts)
    return texts[:count]


def infer(session: OnnxSession, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One text's vector, computed on the session's thread."""
    vector: np.ndarray[Any, Any] = session.submit(lambda run: run({"input_ids": ids})[0][0]).result()
    return vector


def size_mib(path: Path) -> float:
    return path.stat().st_size / 2**20


def show(figures: dict[str, Any]) -> None:
    print(f"{figures['version']}   onnxruntime {figures['onnxruntime']}, {figures['machine']}\n")
    print(
        f"build {figures['build_s']:.1f} s once; ready {figures['ready_s']:.2f} s; "
        f"resident {figures['resident_mib']:.0f} MiB"
    )
    print("CPU ms per text        " + "".join(f"{length:>8}" for length in LENGTHS) + "  tokens")
    for name, by_length in figures["cpu_ms"].items():
        for quantile in ("p50", "p90"):
            row = "".join(f"{by_length[str(length)][quantile]:8.1f}" for length in LENGTHS)
            print(f"  {name:5} {quantile}  {figures['size_mib'][name]:5.1f} MiB {row}")
    print("\nint8 against f32")
    for name, value in figures["agreement"].items():
        print(f"  {name:24} {value:.4g}")


if __name__ == "__main__":
    main()
