"""Whole files that every replica can read, in an object store or a common folder, by fsspec: `s3://`, `gs://`, `file://`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from store.errors import StoreFailed


class UrlBlobs:
    """Under one URL; credentials come from the environment, as its protocol wants them. See store.blobs.Blobs."""

    def __init__(self, url: str) -> None:
        """Raises StoreFailed for a protocol whose package is not installed."""
        with _failing(url):
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]

            # What is listed is what is there: other replicas write, too.
            self._files, folder = url_to_fs(url, use_listings_cache=False)
        self._url = url
        self._folder = str(folder).rstrip("/")

    def put(self, name: str, data: bytes | bytearray) -> None:
        """See `Blobs.put`: whole or not at all, as object stores write. Raises StoreFailed."""
        path = self._path(name)
        with _failing(self._url):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, bytes(data))

    def get(self, name: str) -> bytes | None:
        """See `Blobs.get`. Raises StoreFailed."""
        with _failing(self._url):
            try:
                found: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return found

    def remove(self, names: Iterable[str]) -> None:
        """See `Blobs.remove`. Raises StoreFailed."""
        with _failing(self._url):
            for name in names:
                try:
                    self._files.rm_file(self._path(name))
                except FileNotFoundError:
                    continue

    def names(self, prefix: str) -> dict[str, float]:
        """See `Blobs.names`. One that says no time counts as just written. Raises StoreFailed."""
        folder, _, _ = prefix.rpartition("/")
        with _failing(self._url):
            below = f"{self._folder}/{folder}".rstrip("/")
            try:
                found = self._files.find(below, detail=True)
            except FileNotFoundError:
                return {}
            names = {str(path)[len(self._folder) + 1 :]: _written_at_s(info) for path, info in found.items()}
        return {name: at_s for name, at_s in names.items() if name.startswith(prefix)}

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"


def _written_at_s(info: dict[str, Any]) -> float:
    for field in ("mtime", "LastModified", "last_modified", "updated", "created"):
        found = info.get(field)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, int | float):
            return float(found)
    return time.time()


@contextmanager
def _failing(url: str) -> Iterator[None]:
    """The store's error for whatever an object store's client raises; each has errors of its own."""
    try:
        yield
    except Exception as error:
        raise StoreFailed(f"{url} cannot be used: {type(error).__name__}") from error
