"""Finds out whether another package stands in the place of one of ours, whose names are general."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = (
    "admin",
    "engines",
    "gateway",
    "learning",
    "loadtest",
    "router",
    "simulation",
    "store",
    "workflows",
)
"""The packages that are installed beside `understudy`."""


def shadowed(ours: Path = Path(__file__).parent.parent) -> str | None:
    """The sentence that names the first package that would be imported from elsewhere than `ours`, and the remedy.

    Nothing is imported. What has overwritten our files in their own folder is not seen.
    """
    for name in PACKAGES:
        spec = PathFinder.find_spec(name)
        where = (
            None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        )
        if where is None:
            return f"the package {name!r} is missing from {ours}: install Understudy anew"
        found = Path(where).parent if where.endswith(".py") else Path(where)
        if found.resolve() not in ((ours / name).resolve(), ours.resolve()):
            return (
                f"another package {name!r}, {where}, stands before ours in {ours}: start from another folder, take it "
                "out of PYTHONPATH, or install Understudy into an environment of its own (pipx, uv tool)"
            )
    return None
