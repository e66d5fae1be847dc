"""Puts peers side by side: starts them all in front of one mock, runs alternating rounds, then saturates each in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gateways.adapter import Peer, filled
from benchmarks.gateways.process import Child, running
from benchmarks.processes import NotReady
from loadtest.compare import compare
from loadtest.errors import LoadError
from loadtest.plan import LoadPlan, Target
from loadtest.running import round_runner
from loadtest.slo import Slo

_SATURATION_S = 4.0


def _mock(options: Sequence[str]) -> Peer:
    return Peer(
        name="direct",
        program="{python}",
        command=(
            "{python}",
            *("-m", "loadtest", "serve-mock", "--port", "{port}", "--max-seconds", "7200"),
            *options,
        ),
    )


@contextmanager
def _open_folder() -> Iterator[Path]:
    """A temporary folder that a peer may enter even where it drops its privileges, as nginx does."""
    with tempfile.TemporaryDirectory(prefix="understudy-peers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def contest(
    plan: LoadPlan,
    peers: Sequence[Peer],
    *,
    blocks: int,
    saturate: int,
    mock_options: Sequence[str],
    slo: Slo | None,
    max_lateness_ms: float,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run the comparison; `plan.target` is replaced by each peer in turn. Peers that are not installed or do not start
    are listed in `left_out`. Raises LoadError where nothing is left to compare, GeneratorTooSlow as `compare` does.
    """
    left_out: dict[str, str] = {}
    run_round = round_runner(slo, (), max_lateness_ms)
    with ExitStack() as stack:
        folder = stack.enter_context(_open_folder())
        mock = stack.enter_context(running(_mock(mock_options), "", plan.workload.model, folder / "mock"))
        upstream = f"http://127.0.0.1:{mock.port}"
        children: dict[str, Child] = {"direct": mock}
        targets = [replace(plan.target, base_url=f"{upstream}/v1", name="direct")]
        for peer in peers:
            if peer.found_at() is None and "{python}" not in peer.program:
                left_out[peer.name] = "not installed"
                continue
            say(f"starting {peer.name}{f' ({peer.note})' if peer.note else ''}")
            try:
                child = stack.enter_context(running(peer, upstream, plan.workload.model, folder / peer.name))
            except NotReady as error:
                left_out[peer.name] = str(error)
                continue
            children[peer.name] = child
            targets.append(_target(plan, peer, child))
        if len(targets) < 2:
            why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
            raise LoadError(f"no peer could be started ({why or 'none was asked for'})")
        cpu = CpuMeter(children)
        result = await compare(plan, targets, blocks, cpu.around(run_round), say)
        best: dict[str, float] = {}
        if saturate and not result["interrupted"]:
            cpu = CpuMeter(children)  # under full load a request's share of idle ticks is gone
            best = await _saturate(plan, targets, saturate, cpu.around(run_round), say)
    return _table(plan, result, cpu, best, saturate, left_out)


def _target(plan: LoadPlan, peer: Peer, child: Child) -> Target:
    headers = tuple((name, filled(value, child.values)) for name, value in peer.headers)
    base_url = f"http://127.0.0.1:{child.port}{peer.base_path}"
    return replace(plan.target, base_url=base_url, name=peer.name, headers=(*plan.target.headers, *headers))


class CpuMeter:
    """CPU seconds and requests of each peer, over the rounds that were its own."""

    def __init__(self, children: dict[str, Child]) -> None:
        self._children = children
        self._spent: dict[str, list[float]] = {name: [0.0, 0.0] for name in children}

    def around(self, run_round: Any) -> Any:
        """The round runner, measuring."""

        async def measured(plan: LoadPlan) -> dict[str, Any]:
            child = self._children[plan.target.name]
            if child.ended:
                raise LoadError(f"{child.name} has stopped in mid-comparison")
            before = child.cpu_s()
            report: dict[str, Any] = await run_round(plan)
            after = child.cpu_s()
            if before is not None and after is not None:
                spent = self._spent[plan.target.name]
                spent[0] += after - before
                spent[1] += report["requests"]["measured"] + report["requests"]["warm_up"]
            return report

        return measured

    def us_per_request(self, name: str) -> float | None:
        """Microseconds of CPU per request; None where it could not be read."""
        seconds, requests = self._spent[name]
        return seconds / requests * 1e6 if requests else None


async def _saturate(
    plan: LoadPlan, targets: Sequence[Target], users: int, run_round: Any, say: Callable[[str], None]
) -> dict[str, float]:
    best = {}
    for target in targets:
        closed = replace(
            plan,
            target=target,
            closed_users=users,
            closed_think_s=0.0,
            duration_s=_SATURATION_S,
            warmup_s=1.0,
            max_in_flight=max(users, plan.max_in_flight),
        )
        report = await run_round(closed)
        best[target.name] = report["rates"]["ok_per_s"]
        say(f"saturated {target.name:<16} {best[target.name]:.0f} answered/s with {users} users")
        if report["interrupted"]:
            break
    return best


def _table(
    plan: LoadPlan,
    result: dict[str, Any],
    cpu: CpuMeter,
    best: dict[str, float],
    saturate: int,
    left_out: dict[str, str],
) -> dict[str, Any]:
    lines = []
    base = {label: found["median_ms"] for label, found in result["targets"][0]["figures"].items()}
    for target in result["targets"]:
        figures = {label: found["median_ms"] for label, found in target["figures"].items()}
        p50, p99 = figures.get("latency p50", float("nan")), figures.get("latency p99", float("nan"))
        direct = target["name"] == "direct"
        lines.append(
            {
                "name": target["name"],
                "p50_ms": p50,
                "p99_ms": p99,
                "added_p50_ms": None if direct else round(p50 - base.get("latency p50", float("nan")), 4),
                "added_p99_ms": None if direct else round(p99 - base.get("latency p99", float("nan")), 4),
                "ttft_p50_ms": figures.get("first token p50"),
                "failed_share": target["failed_share"],
                "cpu_us_per_request": cpu.us_per_request(target["name"]),
                "max_ok_per_s": best.get(target["name"]),
            }
        )
    return {
        "format": 1,
        "rate_per_s": plan.arrivals.rate,
        "stream": plan.workload.stream,
        "blocks": result["blocks"],
        "round_s": result["round_s"],
        "closed_users": saturate,
        "peers": lines,
        "left_out": left_out,
        "comparison": result,
    }
