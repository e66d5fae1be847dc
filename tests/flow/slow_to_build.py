"""The command line, but building a gateway takes minutes: `python -m tests.flow.slow_to_build serve ...`."""

from __future__ import annotations

import time
from typing import Any

import structlog

from understudy import build
from understudy.__main__ import main
from understudy.settings.config import Config


def _build(self: build.Gateway, config: Config, **_: Any) -> None:
    structlog.get_logger(__name__).info("building")
    for _ in range(600 * 100):
        time.sleep(0.01)


if __name__ == "__main__":
    build.Gateway.__init__ = _build  # type: ignore[method-assign]
    main()
