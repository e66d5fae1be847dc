"""What the demo runs with: its own settings, and the configuration file of its gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from router.embedding.model import users_models
from simulation.demo.document_question import READER, WORKFLOW, workflow
from simulation.sorting import OTHER
from simulation.world import World

MODEL = "demo"
"""The model name that clients of the demo ask for."""
KEY = "understudy-demo-key"
"""The API key that the demo's clients send, and prints: whoever sends it shares what they left in memory."""
LIMITED_KEY = "understudy-demo-key-with-limits"
"""That of a part of them, where the gateway has keys. No secret: it opens a gateway of this machine, for a minute."""
SORTER = "sorter"
"""The model name that sorts questions: a task of few labels, which a student takes over."""
SMALL, LARGE, JUDGE = "small", "large", "judge"
PRICES = {SMALL: (0.15, 0.60), LARGE: (2.50, 10.00), JUDGE: (0.0, 0.0), READER: (0.15, 0.60)}
"""US dollars per million tokens in and out, of the order of what hosted models of the two classes cost. The judge is taken
to run on a machine that is there anyway: answers of a dozen words would not pay for one."""
MAX_LOSS = 0.05
"""What the README promises, and a gateway by default. A minute of traffic proves little of it, so little is offloaded."""
QUALITY_ALARM = 0.75
"""Quality of offloaded answers below which the alarm is raised: the guarantee is of all answers together."""
REAL_WITHIN_S = 300.0
"""A real model on a busy processor takes its time."""
THETA, M, MAX_EXAMPLES, SAME_NAMES = 0.77, 1, 5, True
"""The policy's knobs, chosen by the sweep in docs/experiments/simulated-world.md."""


REPLAY_USD = 0.05
"""What a run of replay may spend, by itself or on its page."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The size, rate and seed of a demo. Requests are sent at `rate_per_s`, or one after the other where that is None."""

    requests: int = 4800
    rate_per_s: float | None = 80.0
    concurrency: int = 128
    seed: int = 7
    facts: int = 3000
    pace: float = 1.0
    port: int = 0
    model_cache: Path = field(default_factory=users_models)
    """Where the embedding model is kept once built, so that a second demo starts at once."""
    baseline: int = 400
    """How many of the requests are sent again at the end, to each engine alone."""
    feedback_share: float = 0.1
    """Share of answers that get a score by `POST /v1/feedback`."""
    policy: Literal["few_shot", "in_context"] = "in_context"
    """The one that learns; or that of `serve --small --large`."""
    judged: bool = True
    """Whether a judge compares samples of the small engine's answers; with proof it does in any case."""
    proof: Literal["on", "floor", "off"] = "floor"
    """Whether the small engine answers only where comparisons proved it; floor: as much as the quality guarantee allows;
    off: by the policy alone."""
    drift: bool = False
    """Whether the small engine turns bad half-way."""
    admin_port: int | None = None
    """Where the admin pages are served, 0 for a free port; None serves none."""
    small_url: str = ""
    large_url: str = ""
    """Real engines to play it with, each a base URL with /v1 whose server takes the model names `small` and `large`; else
    simulated ones."""
    seconds: float | None = None
    """Where requests are sent one after the other: none begins later."""

    @property
    def real(self) -> bool:
        """Whether the engines are real models. They know nothing of the invented facts: they are given notes."""
        return bool(self.large_url)

    @property
    def learns(self) -> bool:
        """Whether the gateway learns from the answers that are scored."""
        return self.policy == "in_context" and self.feedback_share > 0

    @property
    def has_keys(self) -> bool:
        """Whether the gateway has keys of its own, which only the admin pages show."""
        return self.admin_port is not None

    @property
    def judges(self) -> bool:
        """Whether a judge is asked."""
        return not self.real and (self.judged or self.proof != "off")

    @property
    def sequential(self) -> bool:
        """Whether each answer is remembered before the next question: the same numbers every time."""
        return self.rate_per_s is None


def kinds(settings: DemoSettings) -> list[str]:
    """What the questions of this world are about."""
    return sorted({fact.kind for fact in World(settings.seed, settings.facts).facts})


def memory_folder(folder: Path) -> Path:
    """Where the demo's gateway keeps what it remembers."""
    return folder / "memory"


def turns_bad_at(folder: Path) -> Path:
    """The file whose coming makes the small engine of a demo in this folder bad."""
    return folder / "small-turned-bad"


def gateway_config(settings: DemoSettings, data_dir: Path) -> dict[str, Any]:
    """The configuration file of the demo's gateway, as data."""

    def engine(name: str, role: str, **more: Any) -> dict[str, Any]:
        price = dict(zip(("input_usd_per_mtok", "output_usd_per_mtok"), PRICES[name], strict=True))
        return {
            "kind": "simulated",
            "role": role,
            "seed": settings.seed,
            "facts": settings.facts,
            "pace": settings.pace,
            "price": price,
            "context_tokens": 16_000,
            **more,
        }

    def real_engine(name: str, url: str) -> dict[str, Any]:
        price = dict(zip(("input_usd_per_mtok", "output_usd_per_mtok"), PRICES[name], strict=True))
        phases = ("connect_s", "first_data_s", "gap_s", "answer_s")
        patient = dict.fromkeys(phases, REAL_WITHIN_S)
        return {"kind": "openai", "base_url": url, "model": name, "price": price, "advanced": patient}

    # Notes hold what is asked; then an example about another name shows the form.
    few_shot = {
        "theta": THETA,
        "m": M,
        "max_examples": MAX_EXAMPLES,
        "same_names": SAME_NAMES and not settings.real,
    }
    # The simulated judge is noisy: more votes make it steadier. A minute has few offloaded answers: more of them are judged.
    judging = {"engine": JUDGE, "share_offloaded": 0.3, "advanced": {"samples": 2, "max_in_flight": 64}}
    # The usual deadline suits a server. A laptop busy with the demo's other half would often be late, and a late embedding
    # is bypassed; where the numbers must repeat, it must never be.
    deadline_ms = 30_000 if settings.sequential else 500
    models: dict[str, Any] = {
        MODEL: {
            "engines": [SMALL, LARGE],
            "policy": settings.policy,
            "few_shot": few_shot,
            "proof": settings.proof,
            "max_loss": MAX_LOSS,
        }
    }
    if settings.real:
        engines = {
            SMALL: real_engine(SMALL, settings.small_url),
            LARGE: real_engine(LARGE, settings.large_url),
        }
    else:
        bad_at = str(turns_bad_at(data_dir))
        engines = {
            SMALL: engine(SMALL, "understudy", ttft_ms=90, token_ms=5, capacity=64, turns_bad_at=bad_at),
            LARGE: engine(LARGE, "lead", ttft_ms=350, token_ms=18, capacity=96),
            JUDGE: engine(JUDGE, "judge", ttft_ms=50, token_ms=1, capacity=128),
            READER: engine(READER, "reader", ttft_ms=90, token_ms=5, capacity=64),
        }
        models[READER] = {"engines": [READER], "remember": False}
        models[SORTER] = {
            "engines": [LARGE],
            "tasks": {"about": {"labels": [*kinds(settings), OTHER], "system": "^Sort the question"}},
        }
    return {
        "listen": {"host": "127.0.0.1", "port": settings.port, "grace_s": 2},
        **({"upstream": {"base_url": settings.large_url}} if settings.real else {}),
        "engines": engines,
        "models": models,
        "workflows": {} if settings.real else {WORKFLOW: workflow()},
        "memory": {
            "data_dir": str(memory_folder(data_dir)),
            "advanced": {
                "embedding_cache_dir": str(settings.model_cache),
                "embedding_deadline_ms": deadline_ms,
                "retrieve_deadline_ms": deadline_ms,
                # One of two keys sends what a thousand would.
                "contributor_max_per_hour": None,
            },
        },
        # A minute has to show what takes days elsewhere.
        "learning": {
            "quality_alarm": QUALITY_ALARM,
            "advanced": {"every_s": 2, "min_new_outcomes": 50, "starting_requests": 20_000},
        },
        **({"judging": judging} if settings.judges else {}),
        "replay": {
            "enabled": settings.judges,
            "max_run_usd": REPLAY_USD,
            "advanced": {"calm_s": 1, "kv_plan": {"warm": False}},
        },
        "feedback": {"advanced": {"per_minute": 100_000}},
        "log": {"requests": False},
        "admin": {"enabled": settings.admin_port is not None, "port": settings.admin_port or 0},
    }
