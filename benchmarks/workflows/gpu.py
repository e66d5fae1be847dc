"""Passes on against off over vLLM on a GPU, with 7 billion random weights: `python -m benchmarks.workflows --gpu`.

Times are real, texts are not. vLLM is the `vllm` of the environment in VLLM_GPU_ENV, else the one on PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.recorded import NoData
from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.environment import command
from benchmarks.vllm.serving import Served
from benchmarks.workflows.questions import questions
from benchmarks.workflows.real import Absent, both_ways, report, say
from benchmarks.workflows.real_measuring import WARM_UPS
from benchmarks.workflows.written_model import LLAMA_2_7B, Shape, write_model

ENVIRONMENT = "VLLM_GPU_ENV"
WRITER = "dummy-7b"
WEIGHTS_BYTES = 14 * 2**30
KEPT_BYTES = 12 * 2**30
"""For the keys and values of a server: 24,000 tokens of this model."""
OTHER_BYTES = 4 * 2**30
_LIST_S = 60.0
ABOUT = (
    "Times are real, texts are not: LLaMA 2 7B's shape with random weights, served twice, as two replicas. The question's "
    "rewriting is held to a list by structured output, answers have 32 tokens (ignore_eos). The tokenizer is the tiny "
    "models': it takes one token for 1.5 characters, so that prompts are about two and a half times as long as LLaMA's."
)


def main(arguments: argparse.Namespace) -> int:
    """Measure and print; `arguments` has data, requests and json. 0 where it was skipped, 1 where a figure was missed."""
    try:
        asked = questions(arguments.data)[: WARM_UPS + arguments.requests]
        with tempfile.TemporaryDirectory(prefix="understudy-workflows-") as name:
            folder, where = Path(name), places(gpus())
            with servers(folder, environment(), where) as two:
                found = both_ways(folder, two, asked)
    except (NoData, Absent) as why:
        print(why)
        return 0
    return report(found, ABOUT, arguments.json)


def gpus() -> list[int]:
    """Free bytes of each GPU. Raises Absent where there is none."""
    asked = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=_LIST_S, check=True)
    except FileNotFoundError:
        raise Absent("skipped: no GPU on this machine (it has no nvidia-smi)") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Absent(f"skipped: no GPU on this machine can be used (nvidia-smi: {error})") from None
    free = [int(line) * 2**20 for line in listed.stdout.split("\n") if line.strip().isdigit()]
    if not free:
        raise Absent(f"skipped: no GPU on this machine (nvidia-smi lists none: {listed.stdout.strip()!r})")
    return free


def places(free: Sequence[int]) -> tuple[int, int]:
    """The GPUs of the two servers: one each, or one that has room for both. Raises Absent where there is no room."""
    needed = WEIGHTS_BYTES + KEPT_BYTES + OTHER_BYTES
    room = [gpu for gpu, bytes_ in enumerate(free) for _ in range(bytes_ // needed)]
    if len(room) < 2:
        have = ", ".join(f"{bytes_ / 2**30:.0f}" for bytes_ in free)
        raise Absent(
            f"skipped: two servers need {needed / 2**30:.0f} GiB each of a GPU, and free are (GiB): {have}"
        )
    apart = list(dict.fromkeys(room))
    return (apart[0], apart[1]) if len(apart) > 1 else (room[0], room[1])


def environment(variables: Mapping[str, str] = os.environ) -> Path:
    """The folder whose bin/vllm is for the GPU. Raises Absent."""
    if named := variables.get(ENVIRONMENT):
        if command(Path(named)).exists():
            return Path(named)
        raise Absent(f"skipped: {ENVIRONMENT} is {named}, and there is no {command(Path(named))}")
    if found := shutil.which("vllm"):
        return Path(found).parent.parent
    raise Absent(f"skipped: no `vllm` for the GPU on PATH; name its environment's folder in {ENVIRONMENT}")


@contextmanager
def servers(
    folder: Path, vllm: Path, places_: tuple[int, int], shape: Shape = LLAMA_2_7B
) -> Iterator[tuple[Served, Served]]:
    """Two of the same written model, started one after the other: the second measures what memory the first has left."""
    model = write_model(folder / WRITER, shape)
    with ExitStack() as stack:
        two = []
        for gpu in places_:
            variables = {"CUDA_VISIBLE_DEVICES": str(gpu), "TORCHDYNAMO_DISABLE": "0"}
            served = vllm_serving.start(
                vllm, model, WRITER, folder, *serve_arguments(shape), variables=variables
            )
            stack.callback(served.stop)
            say(f"a server of vLLM is starting on GPU {gpu}")
            vllm_serving.wait(served)
            two.append(served)
        yield two[0], two[1]


def serve_arguments(shape: Shape) -> tuple[str, ...]:
    """Of `vllm serve`, behind those for the CPU, which they replace."""
    return (
        *("--load-format", "dummy", "--dtype", shape.dtype, "--max-model-len", str(shape.positions)),
        *("--kv-cache-memory-bytes", str(KEPT_BYTES), "--no-enforce-eager"),
    )
