"""How long does the event loop stand still while something large is asked? `python -m benchmarks.stalls [--quick]`.

Starts `understudy serve` with the exact store on and an engine under another model name, so that bodies are parsed, keyed,
rewritten, recorded and replayed, and asks `/healthz` every millisecond from a thread of its own meanwhile. *held* is the
longest such wait, counting only what the gateway itself was on a core: on a busy machine it is the figure to trust.
Exits with 1 where a load's median of it is above its budget.
"""

from __future__ import annotations

import http.client
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks import processes
from benchmarks.options import options, write
from benchmarks.processes import free_port
from benchmarks.stalls.loads import CHAT, Load, chat, loads
from benchmarks.stalls.probe import Probe, Worst
from benchmarks.tables import markdown

ROUNDS, QUICK_ROUNDS = 5, 1
_READY_S = 120.0


@contextmanager
def served(name: str, command: list[str], port: int, path: str, folder: Path) -> Iterator[int]:
    """The process id of what answers on `port`: the server, or its only worker."""
    log = folder / f"{name}.log"
    with processes.started([sys.executable, "-m", *command], log) as process:
        processes.wait_until(lambda: answers(port, path), name, process, log, within_s=_READY_S, pause_s=0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield int(children[0]) if children else process.pid


def answers(port: int, path: str) -> bool:
    """Whether `GET path` is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def configured(folder: Path, upstream_port: int) -> Path:
    """A configuration with the exact store on, and a model whose engine knows it under another name."""
    base = f"http://127.0.0.1:{upstream_port}/v1"
    file = folder / "config.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "listen": {"grace_s": 1, "advanced": {"max_json_mib": 64}},
                "upstream": {"base_url": base},
                "engines": {"one": {"base_url": base, "model": "another-name"}},
                "models": {"m": {"engines": ["one"]}},
                "memory": {
                    "data_dir": str(folder / "data"),
                    "examples": {"enabled": False},
                    "advanced": {"exact_max_entry_kib": 2048},
                },
            }
        )
    )
    return file


class Asking:
    """Asks a gateway, one request after the other, on one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, load: Load, body: bytes) -> bool:
        """Whether the answer came from memory. Raises SystemExit on a wrong answer: it has no figures."""
        headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-bench", **load.headers}
        self._connection.request("POST", load.path, body, headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{load.name}: answered with {answer.status}")
        return "; hit" in (answer.getheader("Cache-Status") or "")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def settled(self) -> bool:
        """Whether all that was answered is recorded."""
        self._connection.request("GET", "/readyz?settled=1")
        answer = self._connection.getresponse()
        answer.read()
        return answer.status == 200


def watched(load: Load, number: int, rounds: int, asking: Asking, probe: Probe) -> dict[str, Any]:
    """The stalls under one load, round by round."""
    found: list[Worst] = []
    for n in range(rounds):
        body = load.body(number * 1000 + n)
        if load.known:
            asking.ask(load, body)
            wait_for(asking.settled)
        probe.taken()
        hit = asking.ask(load, body)
        if hit is not load.known:
            raise SystemExit(f"{load.name}: {'answered' if hit else 'not answered'} from memory")
        wait_for(asking.settled)
        found.append(probe.taken())
    return {
        "load": load.name,
        "budget_ms": load.budget_ms,
        "held_ms": [round(worst.held_s * 1000, 2) for worst in found],
        "wall_ms": [round(worst.wall_s * 1000, 2) for worst in found],
    }


def wait_for(settled: Any) -> None:
    """Return once it is so."""
    while not settled():
        pass


def measured(folder: Path, asked: Sequence[Load], rounds: int) -> list[dict[str, Any]]:
    """The stalls under each load, after those of a small question for comparison."""
    with ExitStack() as stack:
        upstream_port, port = free_port(), free_port()
        command = ["benchmarks.stalls.upstream", str(upstream_port)]
        stack.enter_context(served("upstream", command, upstream_port, "/", folder))
        config = configured(folder, upstream_port)
        arguments = ["understudy", "serve", "--config", str(config), "--admin", "off", "--port", str(port)]
        pid = stack.enter_context(served("gateway", arguments, port, "/readyz", folder))
        probe = stack.enter_context(Probe(port, pid))
        asking = Asking(port)
        stack.callback(asking.close)
        idle = Load("nothing but a small question", lambda n: chat(n, "Q?"), path=CHAT)
        return [watched(load, number, rounds, asking, probe) for number, load in enumerate([idle, *asked])]


def table(figures: list[dict[str, Any]]) -> str:
    """The figures as a table."""
    rows = [
        (
            row["load"],
            row["budget_ms"] or "",
            f"{statistics.median(row['held_ms']):.1f}",
            f"{max(row['held_ms']):.1f}",
            f"{max(row['wall_ms']):.1f}",
        )
        for row in figures
    ]
    return markdown(("load", "budget, ms", "held, median", "held, worst", "by the clock, worst"), rows)


def exceeded(figures: Sequence[dict[str, Any]]) -> list[str]:
    """The loads whose median stall is above their budget."""
    return [
        row["load"]
        for row in figures
        if row["budget_ms"] is not None and statistics.median(row["held_ms"]) > row["budget_ms"]
    ]


def main() -> None:
    """Measure and print. Raises SystemExit (1) where a budget is exceeded."""
    parser = options(__doc__)
    parser.add_argument("--quick", action="store_true", help="a few loads, once: does it run?")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="understudy-stalls-") as folder:
        rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
        figures = measured(Path(folder), loads(quick=arguments.quick), rounds)
    print(table(figures))
    write(figures, arguments.json)
    if above := exceeded(figures):
        raise SystemExit(f"above budget: {', '.join(above)}")


if __name__ == "__main__":
    main()
