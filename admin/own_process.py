"""Runs a computation in a process of its own: no page waits for its turn in the interpreter, as it would beside a thread.

The process is a fresh Python, not a fork: this one has threads, whose locks a fork would take along.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Hashable
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from admin.computing import ReportProgress

_NICENESS = 10
"""Low: pages and requests come first."""
_LOOK_S = 0.5
"""How often `report` is called when there is nothing new, since it may raise Stopped."""

Question = TypeVar("Question", bound=Hashable)
Compute = Callable[[Question, ReportProgress], dict[str, Any]]


class ComputationDied(Exception):
    """The process ended without a result; the text says how."""


def in_own_process(compute: Compute[Question]) -> Compute[Question]:
    """The same computation, in a new process each time it is called, which ends with it. Blocks.

    `compute`, its questions and its results must be picklable. Raises what `compute` raises (a RuntimeError with its name
    and text where that cannot be pickled), what `report` raises, and ComputationDied.
    """
    return partial(_computed, compute)


def _computed(compute: Compute[Question], question: Question, report: ReportProgress) -> dict[str, Any]:
    ours, theirs = Pipe()
    # Our packages are found where these are, whatever folder the gateway was started in: -P leaves that out.
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            pass_fds=(theirs.fileno(),),
        ) as process,
    ):
        theirs.close()
        try:
            ours.send((compute, question))
            told = ("beginning", 0.0)
            while True:
                report(*told)
                if not ours.poll(_LOOK_S):
                    continue
                kind, said = ours.recv()
                if kind == "result":
                    return dict(said)
                if kind == "problem":
                    raise said
                told = said
        except (EOFError, ConnectionError) as error:
            raise ComputationDied(f"The process that computed it ended with {process.wait()}") from error
        finally:
            process.kill()


def _serve(line: Connection) -> None:
    """In the new process: computes the one question that comes, and tells how far that is."""
    os.nice(_NICENESS)
    try:
        compute, question = line.recv()
        result = compute(question, lambda doing, done: line.send(("progress", (doing, done))))
        line.send(("result", result))
    except ConnectionError:
        return  # Nobody waits for it any more.
    except Exception as error:
        line.send(("problem", _as_sent(error)))


def _as_sent(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as given:
        _serve(given)
