"""How long the admin pages take with a long log: every page's and twin's time in the server, beside the budget of 100 ms.

Rows are written through the store's own API, spread over a week; the application is asked over a socket, as a browser would,
while the log grows by some requests a second. No gateway runs. CPU is the whole process's, the client's share and the growth
of the log included: on a busy machine it says more than the clock. What takes seconds (a simulation, a map of the busiest
tenant's examples) is computed beside the pages: more tables have some of them while that goes on, in a process of its own,
and for the map on a thread, too.

    python -m benchmarks.admin_pages [--requests 100000] [--examples 2000]
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from aiohttp import web
from yarl import URL

from admin.computing import Computations
from admin.map_maker import drawn
from admin.own_process import in_own_process
from admin.pages import PAGES
from admin.sources import Sources
from benchmarks.admin_pages.content import Writing, choice, content_paths, fill_content
from benchmarks.options import options, write
from store import Store
from store.records import NewExample, OutcomeRecord, RequestRecord
from understudy.processes.listening import bind
from understudy.settings.file import parse_config
from understudy.setup.admin import admin

BUDGET_MS = 100.0
_WEEK_S = 7 * 86_400
_ROUNDS = 20
_GROWS_PER_S = 20.0
"""Requests a second, each with its decision, while pages are asked for."""
_MEANWHILE = ("/router/simulate?preference=0.905", "/overview", "/requests", "/examples", "/router")
_LIGHT = ("/requests", "/router")
CONFIG: dict[str, Any] = {
    "engines": {
        "small": {
            "base_url": "http://127.0.0.1:9/v1",
            "price": {"input_usd_per_mtok": 0.15, "output_usd_per_mtok": 0.6},
        },
        "large": {
            "base_url": "http://127.0.0.1:9/v1",
            "price": {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10},
        },
    },
    "models": {"gpt-4o": {"engines": ["small", "large"], "policy": "in_context", "proof": "off"}},
    "judging": {"engine": "large"},
}


_NEEDS = {"/router/settings": "?model=gpt-4o"}
"""What a page cannot do without."""


def fill(store: Store, requests: int, examples: int, tenants: int = 20, seed: int = 7) -> None:
    """A week of requests of several tenants: hits, offloaded and reference answers, failures, judgements, examples."""
    rng, now_s = np.random.default_rng(seed), time.time()
    keys = [store.keys.create(f"tenant {n}", "bench")[0] for n in range(tenants)]
    writing = Writing()
    times = np.sort(now_s - rng.random(requests) * _WEEK_S)
    kinds = rng.random(requests)
    for i in range(requests):
        key = keys[int(rng.integers(tenants))]
        hit, failed, small = kinds[i] < 0.2, kinds[i] > 0.98, 0.2 <= kinds[i] < 0.6
        total_ms = float(rng.lognormal(6, 0.6))
        request = RequestRecord(
            id=f"{seed:04x}{i:020x}",
            tenant=key.tenant,
            started_at_s=float(times[i]),
            endpoint="/v1/chat/completions",
            model="gpt-4o",
            engine="" if hit else "small" if small else "large",
            outcome="hit" if hit else "failed" if failed else "answered",
            status=502 if failed else 200,
            policy="exact" if hit else "in_context",
            policy_version="1",
            probability=0.9,
            reason="cache_hit" if hit else "bandit",
            example_ids=(1, 2, 3) if small else (),
            prompt_tokens=0 if hit else int(rng.integers(50, 900)),
            completion_tokens=0 if hit else int(rng.integers(20, 400)),
            usage_estimated=False,
            cost_usd=0.0 if hit else float(rng.random() * 0.01),
            total_ms=1.0 if hit else total_ms,
            first_chunk_ms=None if hit else total_ms / 3,
            overhead_ms=2.0,
            stages_ms='{"exact": 0.05, "embed": 1.1, "nearest": 0.3, "score": 0.4, "combine": 0.1, "choose": 0.1}',
            key_id=key.id,
            reference_cost_usd=float(rng.random() * 0.02),
            completion_id=f"chatcmpl-{seed:04x}{i:020x}",
            session=f"b{int(rng.integers(max(1, requests // 4))):023x}",
            end_user=f"{int(rng.integers(200)):024x}",
            error_kind="server" if failed else "",
        )
        writing.add(store.decisions.requests.record(request))
        if i % 20 == 0 and small:
            judged = OutcomeRecord(
                *(request.id, key.tenant, request.started_at_s, "judge", "k", "small", (), True),
                quality=float(rng.random() < 0.9),
                probability=0.05,
                cost_usd=0.001,
            )
            writing.add(store.outcomes.note(judged))
    for n in range(examples):
        asked, said, text = f"Question number {n} about things?", f"Answer {n}.", f"Question number {n}"
        tenant, request_id = keys[n % tenants].tenant, f"example-{n}"
        example = NewExample(tenant, "scope", asked, said, text, None, "", "large", request_id)
        writing.add(store.examples.add(example))
    writing.wait()


def paths(sources: Sources) -> list[str]:
    """Every page, those of one thing too, and the longest periods."""
    newest = sources.store.decisions.requests.recent(1)[0]
    found = [page.path + _NEEDS.get(page.path, "") for page in PAGES if "{" not in page.path]
    found += ["/overview?span=day", "/overview?span=week", "/engines?span=week", "/tenants?span=month"]
    found += [f"/requests/{newest.id}", "/requests?engine=small", f"/requests?user={newest.end_user}"]
    found += [f"/sessions/{newest.tenant}/{newest.session}", "/sessions?least=5"]
    found += [f"/find.json?q={text}" for text in (newest.id[:8], newest.completion_id, "nobody", "12")]
    found += content_paths(sources.store)
    return found + [twin for path in found if (twin := _twin(path)) not in found]


def _twin(path: str) -> str:
    page, mark, query = path.partition("?")
    return path if page.endswith(".json") else f"{page}.json{mark}{query}"


class Growing:
    """Writes requests with their decisions between `start` and `stop`, on a thread, as the latest request went."""

    def __init__(self, store: Store) -> None:
        self.written = 0
        self._store = store
        self._like = next(one for one in store.decisions.requests.recent(100) if one.outcome == "answered")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        rng = np.random.default_rng(3)
        while not self._over.wait(1 / _GROWS_PER_S):
            self.written += 1
            new = replace(self._like, id=f"{3:04x}{self.written:020x}", started_at_s=time.time())
            self._store.decisions.requests.record(new)
            self._store.decisions.choices.record(choice(new, rng)).result(60)


async def measured(folder: Path, requests: int, examples: int, tenants: int = 20) -> dict[str, Any]:
    """Milliseconds of every page and twin: the first time, and median, 95th percentile and longest of the next ones."""
    config = parse_config({**CONFIG, "memory": {"data_dir": str(folder)}})
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with admin(config, port) as (app, sources):
            began = time.monotonic()
            await asyncio.to_thread(fill, sources.store, requests, examples, tenants)
            await asyncio.to_thread(fill_content, sources.store, decisions=requests, examples=10 * examples)
            filled_s = time.monotonic() - began
            began = time.monotonic()
            while await asyncio.to_thread(sources.rollups.catch_up):
                pass
            added_up_s = time.monotonic() - began
            sources.store.operators.put("bench", "operator", "no hash")
            cookie = {f"understudy_admin_{port}": sources.sessions.open("bench")}
            runner = web.AppRunner(app.app, access_log=None)
            await runner.setup()
            await web.SockSite(runner, sock).start()
            url = f"http://127.0.0.1:{port}"
            jar = aiohttp.CookieJar(unsafe=True)
            jar.update_cookies(cookie, URL(url))
            async with aiohttp.ClientSession(url, cookie_jar=jar) as session:
                growing = Growing(sources.store)
                growing.start()
                try:
                    took = {path: await _timed(session, path) for path in paths(sources)}
                finally:
                    await asyncio.to_thread(growing.stop)
                meanwhile = {path: await _while_computing(session, path) for path in _MEANWHILE}
                draw = partial(drawn, sources.open_store)
                counts = sources.store.examples.tenants()
                tenant = max(counts, key=lambda each: counts[each])
                drawing = {
                    how: await _while_drawing(session, Computations(compute, "map"), tenant)
                    for how, compute in (("thread", draw), ("process", in_own_process(draw)))
                }
            await runner.cleanup()
    return {
        "requests": requests,
        "filled_s": filled_s,
        "added_up_s": added_up_s,
        "written_meanwhile": growing.written,
        "pages": took,
        "while_computing": meanwhile,
        "while_drawing": drawing,
    }


async def _while_computing(session: aiohttp.ClientSession, path: str) -> dict[str, float]:
    """A page's milliseconds while a simulation nobody asked before is computed, from its beginning to its end."""
    times: list[float] = []
    question = f"/router/simulate.json?preference={0.01 + 0.9 * random.random():.4f}"
    began = time.perf_counter()
    while True:
        async with session.get(question) as answer:
            if (await answer.json())["state"] != "computing":
                break
        asked = time.perf_counter()
        async with session.get(path) as answer:
            await answer.read()
        times.append((time.perf_counter() - asked) * 1000)
    return {
        "computed_s": time.perf_counter() - began,
        "asked": len(times),
        "median_ms": statistics.median(times),
        "longest_ms": max(times),
    }


async def _while_drawing(
    session: aiohttp.ClientSession, maps: Computations[str], tenant: str
) -> dict[str, dict[str, float]]:
    """Milliseconds of light pages, asked by turns while a tenant's map is drawn, from its beginning to its end."""
    times: dict[str, list[float]] = {path: [] for path in _LIGHT}
    began = time.perf_counter()
    maps.state(tenant)
    try:
        while maps.state(tenant, begin=False).computing:
            for path, took in times.items():
                asked = time.perf_counter()
                async with session.get(path) as answer:
                    await answer.read()
                took.append((time.perf_counter() - asked) * 1000)
    finally:
        await asyncio.to_thread(maps.close)
    drawn_s = time.perf_counter() - began
    return {
        path: {
            "drawn_s": drawn_s,
            "asked": len(took),
            "median_ms": statistics.median(took),
            "p95_ms": float(np.quantile(took, 0.95)),
            "longest_ms": max(took),
        }
        for path, took in times.items()
    }


async def _timed(session: aiohttp.ClientSession, path: str) -> dict[str, float]:
    times, cpu = [], []
    for _ in range(_ROUNDS + 1):
        began, cpu_began = time.perf_counter(), time.process_time()
        async with session.get(path) as answer:
            await answer.read()
            if answer.status != 200:
                raise SystemExit(f"{path} answered {answer.status}")
        times.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - cpu_began) * 1000)
    return {
        "first_ms": times[0],
        "median_ms": statistics.median(times[1:]),
        "p95_ms": float(np.quantile(times[1:], 0.95)),
        "longest_ms": max(times[1:]),
        "cpu_ms": statistics.median(cpu[1:]),
    }


def main() -> None:
    """Fill, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--tenants", type=int, default=20)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        figures = asyncio.run(measured(Path(folder), chosen.requests, chosen.examples, chosen.tenants))
    print(f"{figures['requests']} requests written in {figures['filled_s']:.0f} s, ", end="")
    print(
        f"added up in {figures['added_up_s']:.1f} s; {figures['written_meanwhile']} more while pages were asked for"
    )
    print(
        f"{'page':42} {'first':>9} {'median':>9} {'p95':>9} {'longest':>9} {'CPU':>9}   p95 of {BUDGET_MS:.0f} ms"
    )
    for path, took in figures["pages"].items():
        share = took["p95_ms"] / BUDGET_MS
        ms = [f"{took[name]:6.0f} ms" for name in ("first_ms", "median_ms", "p95_ms", "longest_ms", "cpu_ms")]
        print(f"{path[:42]:42} {' '.join(ms)}   {share:4.0%}")
    late = [path for path, took in figures["pages"].items() if took["p95_ms"] >= BUDGET_MS]
    print(
        f"\n{len(late)} of {len(figures['pages'])} pages and twins over {BUDGET_MS:.0f} ms at p95{':' if late else ''}"
    )
    print("\n".join(late))
    print("\nwhile a simulation is computed in a process of its own:")
    for path, took in figures["while_computing"].items():
        print(
            f"{path[:42]:42} {took['median_ms']:6.0f} ms median, {took['longest_ms']:6.0f} ms longest of {took['asked']},"
            f" computed in {took['computed_s']:.1f} s"
        )
    print("\nwhile a map of examples is drawn:")
    for how, pages in figures["while_drawing"].items():
        for path, took in pages.items():
            ratio = took["p95_ms"] / figures["while_drawing"]["process"][path]["p95_ms"]
            print(
                f"{how:8} {path:33} {took['median_ms']:6.0f} ms median, {took['p95_ms']:6.0f} ms p95 ({ratio:.1f} times the"
                f" process's), {took['longest_ms']:6.0f} ms longest of {took['asked']}, drawn in {took['drawn_s']:.1f} s"
            )
    write(figures, chosen.json)


if __name__ == "__main__":
    main()
