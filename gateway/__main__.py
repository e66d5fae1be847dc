"""The command line: `understudy serve | demo | check | keys | load`."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """Understudy: a transparent OpenAI-API gateway that remembers."""


if __name__ == "__main__":
    main()
