"""What the browser looks at: a real gateway with its admin pages, and a bank and log made by real traffic.

The engines are simulated; one more, `hostile`, answers whatever it is asked with markup that must never come alive.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from admin.passwords import hashed
from simulation.stream import Stream
from simulation.world import World
from store import Store
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import NewStep, ReplayBudget
from store.learned.artifacts import Artifacts
from store.records import TaskAnswer
from store.store import Tasks
from store.tasks.tasks import TaskRow
from store.workflows.assets import NewText
from tests.admin.runs_kept import DOC_QA, failed, going_on, map_reduce, of_workflow
from tests.flow.line import MODELS
from tests.flow.process import Gateway, running
from tests.patience import PATIENCE_S

PASSWORD = "correct horse battery staple"
HOSTILE = '<script>window.pwned=1</script><img src=x onerror="window.pwned=2">"\'><svg onload=window.pwned=3>{{7*7}}'
"""Stored as a prompt, an answer, an example, a tenant's name, a note: wherever a page might forget to escape."""
BRACELESS = HOSTILE.removesuffix("{{7*7}}")
"""As a workflow's prompt may have it: in there, braces are references."""
ROLES = ("viewer", "viewer-content", "operator")


LOOK_UP = {
    "inputs": {"question": "last_user", "documents": "texts"},
    "steps": {
        "chunks": {"split": "{{documents}}", "tokens": 64, "overlap": 8},
        "index": {"ingest": "{{chunks}}"},
        "found": {"search": "{{question}}", "in": "{{index}}", "k": 4},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": 2},
        "answer": {"chat": "From {{top}}, answer: {{question}}", "model": "demo"},
    },
    "output": "answer",
}
"""Every step of it is carried out here, by the local components and a simulated engine."""


class _Hostile(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = {"role": "assistant", "content": f"Answer {HOSTILE}"}
        body = json.dumps(
            {
                "id": f"chatcmpl-{time.monotonic_ns()}",
                "object": "chat.completion",
                "created": 1,
                "model": HOSTILE,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


def config(folder: Path, hostile_url: str) -> dict[str, Any]:
    """Two simulated engines that a router chooses between, a judge, and the hostile one."""

    def engine(role: str, price: float, **more: Any) -> dict[str, Any]:
        prices = {"input_usd_per_mtok": price, "output_usd_per_mtok": 4 * price}
        return {"kind": "simulated", "role": role, "facts": 300, "pace": 0.02, "price": prices, **more}

    # What traffic leaves behind must not hang on how busy the machine is.
    patient = {"retrieve_deadline_ms": 10_000, "embedding_deadline_ms": 10_000}
    advanced = {**patient, "embedding_cache_dir": str(MODELS)}
    hostile = {
        "base_url": hostile_url,
        "model": "h",
        "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1},
    }
    return {
        "listen": {"grace_s": 1},
        "engines": {
            "small": engine("understudy", 0.15, ttft_ms=90, token_ms=5, capacity=64),
            "large": engine("lead", 2.5, ttft_ms=350, token_ms=18, capacity=96),
            "judge": engine("judge", 2.5),
            "hostile": hostile,
        },
        "models": {
            "demo": {
                "engines": ["small", "large"],
                "policy": "in_context",
                "proof": "off",
                "few_shot": {"m": 1, "theta": 0.75},
            },
            "hostile": {"engines": ["hostile"]},
        },
        "workflows": {"doc-qa": DOC_QA, "look-up": LOOK_UP},
        "memory": {"data_dir": str(folder / "data"), "anonymous": True, "advanced": advanced},
        "judging": {"engine": "judge", "share_offloaded": 1, "advanced": {"share_reference": 0.5}},
        "learning": {"enabled": False},
        # Never by itself: a run is asked for on its page.
        "replay": {
            "enabled": True,
            "cron": "0 0 29 2 *",
            "advanced": {"calm_s": 0.3},
        },
        "log": {"requests": False},
        "admin": {"port": 0},
    }


@dataclass
class Stage:
    """Everything running."""

    gateway: Gateway
    admin_url: str
    data: Path
    store: Store

    def ask(self, question: str | list[dict[str, str]], model: str = "demo", **fields: Any) -> dict[str, Any]:
        """One chat completion, and its headers under "headers"."""
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        return self.post("/chat/completions", {"model": model, "messages": messages, **fields})

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST JSON to the gateway."""
        request = urllib.request.Request(
            self.gateway.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            data = answer.read()
            found = json.loads(data) if answer.headers.get_content_type() == "application/json" else {}
            return {**found, "headers": dict(answer.headers)}

    def settle(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until everything answered so far is committed and can be found."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                with urllib.request.urlopen(
                    self.gateway.url.removesuffix("/v1") + "/readyz?settled=1", timeout=10
                ) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            assert time.monotonic() < end, "the gateway never settled"
            time.sleep(0.05)

    def cookie(self, role: str) -> dict[str, Any]:
        """The cookie of somebody signed in with a role, as a browser keeps it."""
        name = f"a-{role}"
        if self.store.operators.get(name) is None:
            self.store.operators.put(name, role, "no hash")
        token = self.store.sessions().open(name)
        port = self.admin_url.rpartition(":")[2]
        return {"name": f"understudy_admin_{port}", "value": token, "url": self.admin_url}


@contextmanager
def stage(folder: Path, requests: int = 40) -> Iterator[Stage]:
    """The whole stage, after some traffic; ended afterwards."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config(folder, f"http://127.0.0.1:{server.server_port}/v1")))
        with running("--config", str(path), "--admin", "on") as gateway:
            found = re.search(
                r'"url":"([^"]+)"', gateway.wait_for_log("admin_listening").split("admin_listening")[1]
            )
            assert found
            store = Store.open(folder / "data")
            try:
                store.operators.put("ann", "operator", hashed(PASSWORD))
                made = Stage(gateway, found[1], folder / "data", store)
                made.settle()
                play(made, requests)
                replayed(store.jobs.replay)
                learnt(store.artifacts)
                labelled(store.tasks)
                composed(store)
                yield made
            finally:
                store.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def replayed(jobs: ReplayJobs) -> None:
    """A run with a plan, as the page of one shows it. Nothing is asked of an engine for it."""
    run_id = jobs.want("", ReplayBudget(usd=1.0), asked_by="admin").result(PATIENCE_S)
    jobs.begin(run_id).result(PATIENCE_S)
    jobs.plan(run_id, [NewStep("default", "distil", n, 0.4, 0.2, 0.01, 300, 2.0) for n in (1, 2, 3)]).result(
        PATIENCE_S
    )
    jobs.finish(jobs.steps(run_id)[0].id, "done", "replaced", {"score": 1.5, "samples": 2}).result(PATIENCE_S)
    jobs.end(run_id, "stopped", "a person said so").result(PATIENCE_S)


def composed(store: Store) -> None:
    """Runs as an executor leaves them, one with a refusal that quotes what a hostile client sent, one that goes on."""
    now_s = time.time()
    map_reduce(store, "run_done", now_s - 60, maps=6, tenant="default", said=HOSTILE)
    failed(store, "run_failed", now_s - 50, tenant="default", said=HOSTILE)
    going_on(store, "run_going_on", now_s - 40, tenant="default")
    of_workflow(store, "run_of_doc_qa", now_s - 55, tenant="default", said=HOSTILE)
    steps = {
        **DOC_QA["steps"],
        "queries": {**DOC_QA["steps"]["queries"], "chat": f"{BRACELESS} {{{{question}}}}"},
    }
    definition = json.dumps({**DOC_QA, "steps": steps}).encode()
    assets = store.runs.assets
    assets.put_workflow("default", "own-qa", "v1", definition, now_s=now_s).result(PATIENCE_S)
    texts = [NewText(HOSTILE, b"\0" * 8)]
    assets.add_texts("default", "papers", texts, identity="e", now_s=now_s).result(PATIENCE_S)


def learnt(artifacts: Artifacts) -> None:
    """Versions of something learnt, of a tenant that nobody is: no worker opens them."""
    for number, reward in enumerate((0.61, 0.58, 0.67)):
        after, before = 0.4 - 0.4 * reward, 0.25 if number == 0 else 0.16
        compared = {
            name: {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}
            for name, mean in (("before", before), ("after", after), ("change", after - before))
        }
        told = {"measure": "squared_error", "outcomes": 80 + 30 * number, "built_in_before": number == 0}
        figures = {"comparison": told | compared, "outcomes": 400 + 150 * number, "seconds": 2.1}
        artifacts.publish("bandit", "nobody", "demo", b"%d" % number, metrics=figures, note="on schedule")


def labelled(tasks: Tasks) -> None:
    """A task of a tenant that nobody is, with labels as a hostile teacher would give them."""
    row = TaskRow("nobody", "demo", "intent", "header")
    tasks.known.add(row, most=10).result(PATIENCE_S)
    for number in range(12):
        tasks.answers.record(
            TaskAnswer(
                tenant=row.tenant,
                slot=row.slot,
                request_id=f"labelled-{number}",
                at_s=time.time() - number,
                answered_by="teacher" if number % 3 else "student",
                input=f"Question {HOSTILE}",
                label=("refund", HOSTILE)[number % 2] if number % 3 else None,
                student_label="refund",
                confidence=0.5,
                version=1,
            )
        ).result(PATIENCE_S)


def play(made: Stage, requests: int) -> None:
    """Questions of the simulated world, feedback on some answers, and what hostile people would send."""
    for number, asked in enumerate(Stream(World(7, 300), requests)):
        got = made.ask(list(asked.messages), stream=number % 3 == 0)
        if "id" in got and number % 4 == 0:
            made.settle()
            made.post("/feedback", {"completion_id": got["id"], "score": 0.9, "comment": HOSTILE})
    made.ask(f"Question {HOSTILE}", model="hostile")
    made.ask(f"Question {HOSTILE}", model="hostile")
    made.ask(
        [{"role": "system", "content": HOSTILE}, {"role": "user", "content": f"Another {HOSTILE}"}],
        model="demo",
    )
    made.settle()
