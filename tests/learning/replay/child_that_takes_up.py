"""Run by test_nightly.py, which kills it: a replayer at work on a long plan."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from store.sqlite.database import Database
from tests.learning.replay.test_nightly import Scene


async def main() -> None:
    folder = Path(sys.argv[1])
    scene = Scene(folder, Database.open(folder / "understudy.db"), float(sys.argv[2]), pace=1.0, steps=40)
    print("begins", flush=True)
    await scene.replayer().step()


asyncio.run(main())
