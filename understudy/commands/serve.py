"""`understudy serve`: from a config file, or from a handful of options and no file at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from understudy.settings.config import Config, check_ports, check_workers
from understudy.settings.file import ConfigError, load_config, parse_config

if TYPE_CHECKING:
    from understudy.processes.wanted import Role


@click.command()
@click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="YAML file; see config.example.yaml."
)
@click.option(
    "--upstream", help="Base URL of an OpenAI-compatible API: a transparent gateway to it, no file needed."
)
@click.option("--host", help="Address to bind [127.0.0.1].")
@click.option(
    "--open",
    is_flag=True,
    default=None,
    help="Start without a gateway key on a --host that others can reach: all of them can then use your upstream keys.",
)
@click.option("--port", type=int, help="Port; 0 takes a free one [8080].")
@click.option("--workers", type=int, help="Processes sharing the port [1].")
@click.option(
    "--upstream-timeout", type=float, help="Seconds for connecting, for the first byte, and between chunks."
)
@click.option("--grace", type=float, help="Seconds open requests get to finish at SIGTERM [30].")
@click.option("--data", type=click.Path(path_type=Path), help="Folder to remember in; switches memory on.")
@click.option(
    "--memory", type=click.Choice(["on", "off"]), help="Whether to remember anything [on with --data]."
)
@click.option(
    "--exact",
    type=click.Choice(["on", "off"]),
    help="Answer repeated requests from the cache [off without --data].",
)
@click.option(
    "--admin", type=click.Choice(["on", "off"]), help="Whether to serve the admin pages [on with --data]."
)
@click.option(
    "--small", metavar="URL=MODEL", help="Small engine; with --large, the whole line for that model name."
)
@click.option(
    "--small-key",
    envvar="UNDERSTUDY_SMALL_KEY",
    show_envvar=True,
    metavar="KEY",
    help="Its API key; none, where it needs none. Required unless it runs on this machine or where --large is.",
)
@click.option(
    "--large",
    metavar="URL=MODEL",
    help="Large engine, whose model name clients ask for. Its base URL is the --upstream, unless that is given.",
)
@click.option(
    "--engine",
    metavar="KIND:...",
    help="The only engine: vllm:URL=MODEL, or vllm-local:MODEL_DIR inside this process (needs the extra vllm).",
)
@click.option(
    "--role",
    type=click.Choice(["all", "gateway", "background"]),
    default="all",
    show_default=True,
    help="Answer requests, do what none waits for (learn, replay, trim, embed), or both, on this machine.",
)
def serve(config_path: Path | None, role: Role, **options: Any) -> None:
    """Run the gateway until SIGTERM or Ctrl-C."""
    given = {name: value for name, value in options.items() if value is not None}

    def read() -> Config:
        return _with_listen(load_config(config_path), given) if config_path else config_of_options(given)

    try:
        config = read()
        if role == "background" and config.memory is None:
            raise ConfigError("there is nothing to do in the background without `memory`")
    except ConfigError as error:
        click.echo(f"understudy: configuration error\n{error}", err=True)
        sys.exit(2)
    from understudy.processes.run import run

    sys.exit(run(config, config_path, read if config_path else None, role))


def config_of_options(given: dict[str, Any]) -> Config:
    """The configuration that a command line without a file stands for. Raises ConfigError."""
    data: dict[str, Any] = {"listen": _listen(given)}
    seconds = given.get("upstream_timeout")
    phases = ("connect_s", "first_data_s", "gap_s", "answer_s")
    timeouts = {} if seconds is None else dict.fromkeys(phases, seconds)
    if "upstream" in given:
        data["upstream"] = {"base_url": given["upstream"], "advanced": timeouts}
    if ("small" in given) != ("large" in given):
        raise ConfigError("--small and --large go together")
    if "small" in given:
        small, large = _engine(given["small"], "--small"), _engine(given["large"], "--large")
        if "small_key" in given:
            small["api_key"] = given["small_key"]
        data.setdefault("upstream", {"base_url": large["base_url"], "advanced": timeouts})
        data["engines"] = {"small": {**small, "advanced": timeouts}, "large": {**large, "advanced": timeouts}}
        data["models"] = {large["model"]: {"engines": ["small", "large"], "policy": "few_shot"}}
    if "engine" in given:
        if "small" in given:
            raise ConfigError("--engine and --small exclude each other; put both into a file")
        engine = _one_engine(given["engine"])
        name = engine.get("model") or engine["model_dir"].rstrip("/").rpartition("/")[2]
        if engine["kind"] == "vllm":
            # Where there is no other place to go, clients' keys are meant for it.
            engine["advanced"] = timeouts | {"forwards_client_key": "upstream" not in given}
        data["engines"] = {"engine": engine}
        data["models"] = {name: {"engines": ["engine"]}}
    data["memory"] = _memory(given)
    if "admin" in given:
        data["admin"] = {"enabled": given["admin"] == "on"}
    if not data.keys() & {"upstream", "engines"}:
        raise ConfigError(
            "nowhere to send requests: give --upstream URL, or --small URL=MODEL and --large URL=MODEL, or --config FILE "
            "(see `understudy serve --help`)"
        )
    try:
        return parse_config(data)
    except ConfigError as error:
        if "engines.small has no api_key" in str(error):
            raise ConfigError(
                f"{error}\non the command line: --small-key KEY, or --small-key none"
            ) from error
        raise


def _memory(given: dict[str, Any]) -> dict[str, Any] | None:
    wanted = "data" in given or given.get("exact") == "on" or "small" in given or given.get("memory") == "on"
    if not wanted or given.get("memory") == "off":
        return None
    return {
        "data_dir": given.get("data"),
        "exact": {"enabled": given.get("exact", "on") == "on"},
        "examples": {"enabled": "small" in given},
    }


def _engine(text: str, option: str) -> dict[str, Any]:
    url, separator, model = text.rpartition("=")
    if not separator or not url or not model:
        # What follows one of these may be a credential.
        shown = "(not shown)" if {"@", "?", "#"} & set(text) else repr(text)
        raise ConfigError(f"{option} {shown}: write URL=MODEL, e.g. http://127.0.0.1:8000/v1=my-model")
    return {"kind": "openai", "base_url": url, "model": model}


def _one_engine(text: str) -> dict[str, Any]:
    kind, _, where = text.partition(":")
    if kind == "vllm-local" and where:
        return {"kind": kind, "model_dir": where}
    if kind == "vllm" and where:
        return {**_engine(where, "--engine vllm"), "kind": kind}
    raise ConfigError(
        f"--engine {text!r}: write vllm-local:MODEL_DIR, e.g. vllm-local:/models/small, "
        "or vllm:URL=MODEL, e.g. vllm:http://127.0.0.1:8000/v1=my-model"
    )


def _listen(given: dict[str, Any]) -> dict[str, Any]:
    names = {"host": "host", "open": "open", "port": "port", "workers": "workers", "grace": "grace_s"}
    return {key: given[name] for name, key in names.items() if name in given}


def _with_listen(config: Config, given: dict[str, Any]) -> Config:
    # small_key may come from the environment, where it is of no concern here.
    extra = sorted(set(given) - {"host", "open", "port", "workers", "grace", "admin", "small_key"})
    if extra:
        raise ConfigError(
            f"--{extra[0].replace('_', '-')} and --config exclude each other; put it into the file"
        )
    listen = config.listen.model_copy(update=_listen(given))
    changes: dict[str, Any] = {"listen": listen}
    if "admin" in given:
        changes["admin"] = config.admin.model_copy(update={"enabled": given["admin"] == "on"})
    changed = config.model_copy(update=changes)
    try:
        check_workers(listen.workers, config.engines)
        check_ports(changed)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return changed
