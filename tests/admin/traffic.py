"""A gateway that answers and the pages beside it, over one data folder: what the pages show is what real requests left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.admin.site import Site, site
from tests.flow.line import MODELS, Line, Upstream, line, upstream

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
ALIKE = "How can I list all files in a Linux directory, including the hidden ones?"
UNLIKE = "Who wrote the opera about the barber?"
HOSTILE = "<script>alert('asked')</script> \"><img src=x onerror=alert(1)>"


@dataclass
class House:
    """A gateway with two engines that say what a test wants, and the admin pages."""

    gate: Line
    site: Site
    small: Upstream
    large: Upstream

    async def ask(
        self, question: str | list[dict[str, Any]], headers: dict[str, str] | None = None, **fields: Any
    ) -> str:
        """One request; gives its id once it is in the log."""
        got = await self.gate.chat(question, headers, **fields)
        assert got.status == 200, got.body
        return str(got.headers["x-understudy-decision-id"])


@asynccontextmanager
async def house(folder: Path, **config: Any) -> AsyncIterator[House]:
    """The policy that learns, before it learnt anything and without trying anything: familiar requests go to `small`."""
    async with upstream() as small, upstream() as large:
        small.says, large.says = "From the small one.", "Use ls -a."
        still = {"epsilon": 0, "key_share": 0, "scorer_deadline_ms": 10_000}
        memory: dict[str, Any] = {
            "data_dir": str(folder),
            "advanced": {
                "retrieve_deadline_ms": 10_000,
                "embedding_deadline_ms": 10_000,
                "embedding_cache_dir": str(MODELS),
            },
        }
        settings: dict[str, Any] = {
            "engines": {
                "small": {
                    "base_url": small.url,
                    "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1},
                },
                "large": {
                    "base_url": large.url,
                    "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10},
                },
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "in_context",
                    "proof": "off",
                    "few_shot": {"theta": 0.8, "m": 1},
                    "advanced": still,
                }
            },
            **config,
            "memory": memory | config.get("memory", {}),
        }
        async with line(settings) as gate, site(folder, **settings) as pages:
            yield House(gate, pages, small, large)
