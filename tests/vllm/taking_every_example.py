"""The command line of a gateway whose combiner sends as many examples as allowed: run as a module in its place."""

from __future__ import annotations

from router.examples import combiner
from understudy.__main__ import main


def take_every_example() -> None:
    """From now on the combiner's fixed number is the most that a request gets."""
    combiner.UNLEARNT_MOST = 8


if __name__ == "__main__":
    take_every_example()
    main()
