"""Starts vLLM's engine in this process, with its own OpenAI front end but without its server. Only this file imports vLLM.

Chat templates, tool calls, log-probabilities, stop strings and error bodies are vLLM's own, so an engine in this process
answers what `vllm serve` would. Written for vLLM 0.32, whose launchers it calls as its own server does.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from engines.asgi import Application

INSTALL = "pip install 'understudy-gateway[vllm]'"
_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    # The gateway's log is one JSON object per line: vLLM's own lines are left to its own processes' errors.
    "VLLM_CONFIGURE_LOGGING": "0",
    # This process has threads and, soon, CUDA: neither survives a fork, which is vLLM's default.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""Set in the environment before vLLM is imported, unless the operator set them."""


class CannotStartEngine(Exception):
    """vLLM cannot be started, now or later: it is not installed, or refuses its arguments. The text says what to do."""


@dataclass(slots=True)
class Figures:
    """How busy the engine was after its last step."""

    running: int = 0
    waiting: int = 0
    kv_use: float | None = None


@dataclass(slots=True)
class Core:
    """A running engine."""

    application: Application
    """vLLM's front end (ASGI), with `/v1/chat/completions` and the rest."""
    window_tokens: int
    figures: Figures
    _llm: Any = field(repr=False)

    @property
    def dead(self) -> bool:
        """Whether the engine's own processes ended: it will not answer again."""
        return bool(self._llm.errored)

    def shutdown(self) -> None:
        """End the engine's processes. Blocks for seconds; safe to call twice."""
        self._llm.shutdown()


@dataclass(frozen=True, slots=True)
class Started:
    """An engine whose processes run, without a front end yet."""

    args: Any
    llm: Any
    figures: Figures

    def shutdown(self) -> None:
        """End it. Blocks."""
        self.llm.shutdown()


def installed() -> bool:
    """Whether vLLM can be imported, without importing it."""
    return importlib.util.find_spec("vllm") is not None


def start_blocking(model: str, arguments: Sequence[str], name: str) -> Started:
    """Import vLLM, read its arguments, start its processes and wait until they have loaded `model`. Takes minutes.

    Call it on a thread, then `opened` in the event loop that will use it. `arguments` are those of `vllm serve`; `name` is
    the model name that requests carry. Raises CannotStartEngine, or whatever vLLM raises.
    """
    if not installed():
        raise CannotStartEngine(f"vLLM is not installed; {INSTALL}")
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    args = parsed(model, arguments, name)
    figures = Figures()
    # A registry of series is one per process and vLLM's cannot be told apart by engine: figures come from the engine itself.
    args.disable_log_stats = True
    engine_args = AsyncEngineArgs.from_cli_args(args)
    llm = AsyncLLM.from_engine_args(engine_args, stat_loggers=[_follower(figures)])
    return Started(args, llm, figures)


async def opened(started: Started) -> Core:
    """The front end over an engine that `start_blocking` started, in the event loop that will use it."""
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app

    args, llm = started.args, started.llm
    tasks = await llm.get_supported_tasks()
    app = await asyncio.to_thread(build_app, args, tasks, llm.model_config)
    await init_app_state(llm, app.state, args, tasks)
    # Its error handlers would have the server stop when the engine is dead; here somebody else looks after that.
    app.state.server = SimpleNamespace(should_exit=False)
    return Core(app, int(llm.model_config.max_model_len), started.figures, llm)


def parsed(model: str, arguments: Sequence[str], name: str) -> Any:
    """vLLM's own reading of the arguments of `vllm serve`. Raises CannotStartEngine with its complaint."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
            args = parser.parse_args([*arguments, "--served-model-name", name, "--model", model])
            validate_parsed_serve_args(args)
    except SystemExit:
        lines = said.getvalue().strip().splitlines() or ["it refused the arguments"]
        raise CannotStartEngine(f"vLLM does not take these arguments: {lines[-1]}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise CannotStartEngine(f"vLLM does not take these arguments: {error}") from error
    return args


def _follower(figures: Figures) -> Any:
    """A stat logger (vLLM's interface for them) that notes the figures and writes nothing."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Follower(StatLoggerBase):  # type: ignore[misc]
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            if scheduler_stats is not None:
                figures.running = int(getattr(scheduler_stats, "num_running_reqs", 0))
                figures.waiting = int(getattr(scheduler_stats, "num_waiting_reqs", 0))
                figures.kv_use = getattr(scheduler_stats, "kv_cache_usage", None)

        def log_engine_initialized(self) -> None:
            pass

    return Follower
