"""The options that `run`, `compare` and `sweep` share, and the plan they describe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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

_shown = partial(click.option, show_default=True)
_positive = partial(_shown, type=_POSITIVE)
_seconds = partial(_shown, type=click.FloatRange(0.0))

_TARGET = (
    _shown(
        "--endpoint",
        type=click.Choice(["chat", "completions", "embeddings"]),
        default="chat",
        help="Kind of request.",
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
    _positive("--rate", default=5.0, help="Requests/s."),
    _shown(
        "--arrivals",
        type=click.Choice(["poisson", "constant", "ramp", "step", "burst"]),
        default="poisson",
        help="How arrivals are spaced.",
    ),
    click.option("--rate-to", type=_POSITIVE, default=None, help="Second rate of ramp, step and burst."),
    _shown("--steps", type=click.IntRange(2), default=5, help="Steps from --rate to --rate-to."),
    _positive("--burst-every", default=10.0, help="Period of bursts, s."),
    _positive("--burst-length", default=1.0, help="Length of a burst, s."),
    click.option(
        "--trace",
        help="Arrivals and lengths from a file: Azure CSV, Mooncake JSONL, BurstGPT CSV; or azure2023, mooncake.",
    ),
    _positive("--speed", default=1.0, help="Speed of a trace's clock."),
    _positive("--token-scale", default=1.0, help="Scales a trace's lengths."),
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
    _seconds("--warmup", "warmup_s", default=0.0, help="Leave out the first s."),
    _positive("--timeout", "timeout_s", default=60.0, help="Give a request up after, s."),
    _shown("--max-in-flight", type=click.IntRange(1), default=4096, help="Most requests in flight."),
    _shown("--processes", type=click.IntRange(1, 64), default=1, help="Client processes."),
    _shown("--seed", default=1, help="Same seed, same requests at the same instants."),
    _positive(
        "--max-lateness-ms",
        default=2.0,
        help="Lateness of the load generator, p99, up to which results are trusted.",
    ),
)
_WORKLOAD = (
    click.option("--model", default="", help="[default: the first that /v1/models lists]"),
    _shown("--stream/--no-stream", default=True, help="Ask for streams."),
    click.option("--prompt", default="", help="The same question every time, instead of synthetic ones."),
    _shown("--tokens-in", type=_DIST, default="64", help="Length of synthetic prompts."),
    _shown("--tokens-out", type=_DIST, default="128", help="max_tokens."),
    click.option(
        "--messages",
        "messages_file",
        type=click.Path(path_type=Path),
        help="JSONL: messages, prompt or text a line.",
    ),
    click.option("--conversations", is_flag=True, help="Replay each line of --messages turn by turn."),
    _seconds("--turn-pause", "think_s", default=1.0, help="Before a next turn, s."),
    click.option(
        "--repeat",
        "repeat_share",
        type=_SHARE,
        default=0.0,
        help="Share of requests that repeat an earlier one.",
    ),
    click.option(
        "--paraphrase", "paraphrase_share", type=_SHARE, default=0.0, help="Share of reworded repeats."
    ),
    click.option(
        "--prefix-tokens", type=click.IntRange(0), default=0, help="Length of a shared system prompt."
    ),
    _shown("--prefixes", "prefix_count", type=click.IntRange(1), default=1, help="Different system prompts."),
    _shown("--usage/--no-usage", "ask_usage", default=True, help="Ask streams for usage."),
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
    _shown("--engine-header", default="x-understudy-engine", help="Says who answered."),
    click.option("--quality-header", default="", help="Says how good the answer is, 0 to 1."),
    click.option(
        "--judge-expected",
        "expect_answers",
        is_flag=True,
        help="Right if the answer holds the line's expect or gold.",
    ),
)


def plan_options(command: _F) -> _F:
    """Adds every shared option to a command."""
    for option in reversed((*_TARGET, *_SCHEDULE, *_BOUNDS, *_WORKLOAD, *_READING)):
        command = option(command)
    return command


def output_file(name: str, help: str | None = None) -> Callable[[_F], _F]:
    """An option for a file to write, such as `--json`, which becomes the parameter `json_path`."""
    parameter = f"{name.removeprefix('--')}_path"
    return click.option(name, parameter, type=click.Path(path_type=Path, dir_okay=False), help=help)


@contextmanager
def click_errors() -> Iterator[None]:
    """Turns LoadError and OSError into the message and exit status of a command."""
    from loadtest.errors import LoadError

    try:
        yield
    except LoadError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'file'}: {error.strerror or error}") from None


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
    """A plan from the shared options. Raises click.UsageError if they do not fit together, BadTrace for a bad file."""
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
