"""A load test as one value: target, workload, arrivals and limits. It is sent to the client processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from loadtest.arrivals import Arrivals
from loadtest.distributions import Distribution

PATHS = {"chat": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings"}

_SHORT_QUESTION = Distribution("fixed", 64.0)
_SHORT_ANSWER = Distribution("fixed", 128.0)
_STEADY = Arrivals()


@dataclass(frozen=True)
class Target:
    """The endpoint under test. `headers` may hold a key: it is never printed (`repr=False`) nor put in a report."""

    base_url: str
    endpoint: str = "chat"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify_tls: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base URL {self.base_url!r} must look like http://host:port or https://host/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                "the base URL must not carry a user, a password or a query: use --header or --api-key-env"
            )
        try:
            _ = parts.port
        except ValueError:
            raise ValueError(
                f"base URL {self.base_url!r}: the port is not a number from 0 to 65535"
            ) from None
        if self.endpoint not in PATHS:
            raise ValueError(f"{self.endpoint!r} is not an endpoint: choose one of {', '.join(PATHS)}")

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.base_url).scheme == "https"

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def port(self) -> int:
        """The TCP port."""
        return urlsplit(self.base_url).port or (443 if self.tls else 80)

    @property
    def root(self) -> str:
        """The path in front of /chat/completions: the URL's own where it has one, otherwise /v1."""
        return urlsplit(self.base_url).path.rstrip("/") or "/v1"

    @property
    def path(self) -> str:
        """The path requests are posted to."""
        return self.root + PATHS[self.endpoint]

    @property
    def host_header(self) -> str:
        """The Host header's value."""
        return urlsplit(self.base_url).netloc

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.name or self.host_header


@dataclass(frozen=True)
class WorkloadSpec:
    """The requests to send. Lengths are in tokens (about one short English word each)."""

    model: str = ""
    stream: bool = True
    prompt: str = ""  # fixed text; "" means synthetic text of `tokens_in`
    tokens_in: Distribution = _SHORT_QUESTION
    tokens_out: Distribution = _SHORT_ANSWER
    messages_file: Path | None = None  # JSONL: one request a line
    conversations: bool = False  # replay each line's turns one after the other
    think_s: float = 1.0  # between a turn's answer and the next turn
    repeat_share: float = 0.0  # exact repeats of an earlier request
    paraphrase_share: float = 0.0  # reworded repeats
    prefix_tokens: int = 0  # length of a shared system prompt
    prefix_count: int = 1  # how many different shared system prompts
    trace_file: Path | None = None  # lengths (and prefix blocks) come from here
    token_scale: float = 1.0  # shortens or lengthens a trace's prompts and answers
    ask_usage: bool = True  # stream_options.include_usage
    extra_body: str = ""  # a JSON object merged into every body

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_share + self.paraphrase_share < 1:
            raise ValueError(
                f"repeats ({self.repeat_share:g}) and paraphrases ({self.paraphrase_share:g}) together must stay below 1"
            )
        if self.prefix_count < 1:
            raise ValueError(f"there must be at least one shared prefix, got {self.prefix_count}")
        if self.token_scale <= 0:
            raise ValueError(f"the token scale must be above 0, got {self.token_scale:g}")


@dataclass(frozen=True)
class LoadPlan:
    """One run of a load test."""

    target: Target
    workload: WorkloadSpec = field(default_factory=WorkloadSpec)
    arrivals: Arrivals = _STEADY
    speed: float = 1.0  # a trace's clock, times this
    closed_users: int = 0  # > 0: closed loop with so many users, each waiting for its answer
    closed_think_s: float = 0.0
    duration_s: float = 30.0
    max_requests: int = 0  # 0: no limit
    warmup_s: float = 0.0  # requests due before this are sent, shown and left out of the report
    processes: int = 1
    timeout_s: float = 60.0
    max_in_flight: int = 4096  # over all processes
    seed: int = 1
    engine_header: str = ""
    quality_header: str = ""
    expect_answers: bool = False  # JSONL rows carry `expect`: an answer is right if it holds that text

    def __post_init__(self) -> None:
        if self.duration_s <= 0 or self.timeout_s <= 0:
            raise ValueError(
                f"duration ({self.duration_s:g} s) and timeout ({self.timeout_s:g} s) must be above 0"
            )
        if not 0 <= self.warmup_s < self.duration_s:
            raise ValueError(
                f"a warm-up of {self.warmup_s:g} s must be shorter than the run of {self.duration_s:g} s"
            )
        if not 1 <= self.processes <= 64:
            raise ValueError(f"between 1 and 64 client processes, got {self.processes}")
        if self.max_in_flight < self.processes:
            raise ValueError(
                f"max in flight ({self.max_in_flight}) must be at least the processes ({self.processes})"
            )
        if self.speed <= 0:
            raise ValueError(f"the speed of a trace must be above 0, got {self.speed:g}")
        if self.closed_users < 0 or self.closed_users > self.max_in_flight:
            raise ValueError(
                f"closed-loop users must be from 0 to {self.max_in_flight}, got {self.closed_users}"
            )
