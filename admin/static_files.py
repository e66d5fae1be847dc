"""Serves style sheets and scripts: our own, and the charting library from plotly's wheel, so that no network is needed.

The hash of the content is part of the URL, so a file may be cached for ever; a new version has a new URL.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import threading
from dataclasses import dataclass, field
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
CHARTS = "plotly.min.js"


@dataclass
class StaticFile:
    """One file, in memory once it was requested."""

    path: Path
    digest: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _plain: bytes | None = None
    _packed: bytes | None = None

    @property
    def content_type(self) -> str:
        """Its media type."""
        return _TYPES[self.path.suffix]

    def plain(self) -> bytes:
        """The file's bytes. Blocks at first."""
        with self._lock:
            if self._plain is None:
                self._plain = self.path.read_bytes()
            return self._plain

    def packed(self) -> bytes:
        """The bytes compressed with gzip. Blocks at first, some hundred milliseconds for a large file."""
        plain = self.plain()
        with self._lock:
            if self._packed is None:
                self._packed = gzip.compress(plain, 6, mtime=0)
            return self._packed


class StaticFiles:
    """Every file by name, and its URL."""

    def __init__(self) -> None:
        paths = [*sorted(_FOLDER.iterdir()), charts_script()]
        self._files = {
            path.name: StaticFile(path, _digest(path))
            for path in paths
            if path is not None and path.suffix in _TYPES
        }

    def url(self, name: str) -> str:
        """The URL of a file. Raises KeyError for one that does not exist."""
        return f"/static/{self._files[name].digest}/{name}"

    def get(self, digest: str, name: str) -> StaticFile | None:
        """The file of this name, if `digest` is that of its current version."""
        found = self._files.get(name)
        return found if found is not None and found.digest == digest else None


def charts_script() -> Path | None:
    """Path of plotly's script in its wheel; None if it is not installed. Does not import plotly."""
    found = importlib.util.find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "package_data" / CHARTS
    return path if path.is_file() else None


def _digest(path: Path) -> str:
    # The large file in the wheel changes with the wheel only: its size and time identify it without reading it.
    stat = path.stat()
    if stat.st_size > 1_000_000:
        return hashlib.sha256(f"{stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
