"""The options that `run`, `compare` and `sweep` share, and how they become a plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from loadtest.commands.types import Parsed
from loadtest.distributions import parse_distribution

if TYPE_CHECKING:
    from loadtest.plan import LoadPlan, Target

_F = TypeVar("_F", bound=Callable[..., Any])
_DIST = Parsed("dist", parse_distribution)
_SHARE = click.FloatRange(0.0, 1.0)
_POSITIVE = click.FloatRange(0.0, min_open=True)
_DATA = Path("../shared/data")
_KNOWN_TRACES = {
    "azure2023": _DATA / "trace_azure2023_conv.csv.gz",
    "mooncake": _DATA / "trace_mooncake_conversation.jsonl.gz",
}


def _slo(text: str) -> Any:
    from loadtest.slo import parse_slo

    return parse_slo(text)


def _price(text: str) -> Any:
    from loadtest.prices import parse_price

    return parse_price(text)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or "\n" in text or "\r" in text:
        raise ValueError("a header is written 'name: value' on one line")
    return name.strip(), value.strip()


SLO = Parsed("slo", _slo)
PRICE = Parsed("price", _price)
HEADER = Parsed("header", _header)

_TARGET = (
    click.option(
        "--endpoint",
        type=click.Choice(["chat", "completions", "embeddings"]),
        default="chat",
        show_default=True,
    ),
    click.option(
        "--header", "headers", type=HEADER, multiple=True, help="'name: value', sent with every request."
    ),
    click.option(
        "--api-key-env", help="Environment variable that holds the key.  [default: OPENAI_API_KEY, if set]"
    ),
    click.option("--insecure", is_flag=True, help="Do not verify TLS certificates."),
)
_SCHEDULE = (
    click.option("--rate", type=_POSITIVE, default=5.0, show_default=True, help="Requests/s."),
    click.option(
        "--arrivals",
        type=click.Choice(["poisson", "constant", "ramp", "step", "burst"]),
        default="poisson",
        show_default=True,
    ),
    click.option("--rate-to", type=_POSITIVE, default=None, help="Second rate of ramp, step and burst."),
    click.option(
        "--steps",
        type=click.IntRange(2),
        default=5,
        show_default=True,
        help="Steps from --rate to --rate-to.",
    ),
    click.option(
        "--burst-every", type=_POSITIVE, default=10.0, show_default=True, help="Period of bursts, s."
    ),
    click.option(
        "--burst-length", type=_POSITIVE, default=1.0, show_default=True, help="Length of a burst, s."
    ),
    click.option(
        "--trace",
        help="Arrivals and lengths from a file: Azure CSV, Mooncake JSONL, BurstGPT CSV; or azure2023, mooncake.",
    ),
    click.option("--speed", type=_POSITIVE, default=1.0, show_default=True, help="Speed of a trace's clock."),
    click.option(
        "--token-scale", type=_POSITIVE, default=1.0, show_default=True, help="Scales a trace's lengths."
    ),
    click.option(
        "--closed",
        "closed_users",
        type=click.IntRange(0),
        default=0,
        help="Closed loop: so many users instead of a rate.",
    ),
    click.option(
        "--think",
        "closed_think_s",
        type=click.FloatRange(0.0),
        default=0.0,
        help="Closed loop: pause of a user, s.",
    ),
)
_BOUNDS = (
    click.option("--duration", type=_POSITIVE, default=None, help="s.  [default: 30, or the whole trace]"),
    click.option(
        "--requests",
        "max_requests",
        type=click.IntRange(0),
        default=0,
        help="Stop after so many. 0: no limit.",
    ),
    click.option(
        "--warmup",
        "warmup_s",
        type=click.FloatRange(0.0),
        default=0.0,
        show_default=True,
        help="Leave out the first s.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=_POSITIVE,
        default=60.0,
        show_default=True,
        help="Give a request up after, s.",
    ),
    click.option("--max-in-flight", type=click.IntRange(1), default=4096, show_default=True),
    click.option(
        "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Client processes."
    ),
    click.option(
        "--seed", default=1, show_default=True, help="Same seed, same requests at the same instants."
    ),
    click.option(
        "--max-lateness-ms",
        type=_POSITIVE,
        default=2.0,
        show_default=True,
        help="Own p99 lateness that is still fine.",
    ),
)
_WORKLOAD = (
    click.option("--model", default="", help="[default: the first that /v1/models lists]"),
    click.option("--stream/--no-stream", default=True, show_default=True),
    click.option("--prompt", default="", help="The same question every time, instead of synthetic ones."),
    click.option(
        "--tokens-in", type=_DIST, default="64", show_default=True, help="Length of synthetic prompts."
    ),
    click.option("--tokens-out", type=_DIST, default="128", show_default=True, help="max_tokens."),
    click.option(
        "--messages",
        "messages_file",
        type=click.Path(path_type=Path),
        help="JSONL: messages, prompt or text a line.",
    ),
    click.option("--conversations", is_flag=True, help="Replay each line of --messages turn by turn."),
    click.option(
        "--turn-pause",
        "think_s",
        type=click.FloatRange(0.0),
        default=1.0,
        show_default=True,
        help="Before a next turn, s.",
    ),
    click.option("--repeat", "repeat_share", type=_SHARE, default=0.0, help="Share of exact repeats."),
    click.option(
        "--paraphrase", "paraphrase_share", type=_SHARE, default=0.0, help="Share of reworded repeats."
    ),
    click.option(
        "--prefix-tokens", type=click.IntRange(0), default=0, help="Length of a shared system prompt."
    ),
    click.option(
        "--prefixes",
        "prefix_count",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Different system prompts.",
    ),
    click.option(
        "--usage/--no-usage", "ask_usage", default=True, show_default=True, help="Ask streams for usage."
    ),
    click.option("--body", "extra_body", default="", help="JSON object merged into every body."),
)
_READING = (
    click.option("--slo", type=SLO, help="Such as ttft<=500ms,latency<=2s,tpot<=50ms."),
    click.option(
        "--price",
        "prices",
        type=PRICE,
        multiple=True,
        help="IN,OUT or MODEL=IN,OUT in USD per million tokens.",
    ),
    click.option(
        "--engine-header", default="x-understudy-engine", show_default=True, help="Says who answered."
    ),
    click.option("--quality-header", default="", help="Says how good the answer is, 0 to 1."),
    click.option(
        "--judge-expected",
        "expect_answers",
        is_flag=True,
        help="Right if the answer holds the line's expect or gold.",
    ),
)


def plan_options(command: _F) -> _F:
    """Add every shared option to a command."""
    for option in reversed((*_TARGET, *_SCHEDULE, *_BOUNDS, *_WORKLOAD, *_READING)):
        command = option(command)
    return command


def make_target(base_url: str, given: dict[str, Any], name: str = "") -> Target:
    """A target from a URL and the shared options. Raises click.UsageError for a bad URL or an unset key variable."""
    from loadtest.plan import Target

    headers = tuple(given["headers"])
    key_name = given["api_key_env"]
    key = os.environ.get(key_name or "OPENAI_API_KEY", "")
    if key_name and not key:
        raise click.UsageError(f"--api-key-env names {key_name!r}, which is not set")
    if key and not any(header.lower() == "authorization" for header, _ in headers):
        headers = (*headers, ("authorization", f"Bearer {key}"))
    try:
        return Target(base_url.rstrip("/"), given["endpoint"], headers, not given["insecure"], name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def make_plan(target: Target, given: dict[str, Any]) -> LoadPlan:
    """A plan from the shared options. Raises click.UsageError where they do not fit together, BadTrace for a bad file."""
    from loadtest.arrivals import Arrivals
    from loadtest.plan import LoadPlan, WorkloadSpec
    from loadtest.traces import read_trace

    trace = _KNOWN_TRACES.get(given["trace"] or "", Path(given["trace"])) if given["trace"] else None
    duration_s = given["duration"]
    if trace is not None and duration_s is None:
        duration_s = read_trace(trace)[-1].t_s / given["speed"] + 0.001
    duration_s = duration_s or 30.0
    if given["conversations"] and given["messages_file"] is None:
        raise click.UsageError("--conversations needs --messages FILE")
    try:
        workload = WorkloadSpec(
            trace_file=trace,
            **{name: given[name] for name in WorkloadSpec.__dataclass_fields__ if name in given},
        )
        if target.endpoint == "embeddings":
            workload = replace(workload, stream=False)
        kind = "trace" if trace else given["arrivals"]
        arrivals = Arrivals(
            kind,
            given["rate"],
            given["rate_to"] or 0.0,
            duration_s,
            given["steps"],
            given["burst_every"],
            given["burst_length"],
        )
        names = set(LoadPlan.__dataclass_fields__) - {"target", "workload", "arrivals", "duration_s"}
        return LoadPlan(
            target=target,
            workload=workload,
            arrivals=arrivals,
            duration_s=duration_s,
            **{name: given[name] for name in names if name in given},
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
