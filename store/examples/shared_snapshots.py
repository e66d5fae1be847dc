"""Snapshots of indexes for replicas that have no folder in common. Knows no graph.

One process publishes, the owner; any replica that starts reads what it published and follows the log from there. A snapshot
is the graph's bytes under a name used once and a seal, replaced last, which names them and has their checksum.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from store.blobs import Blobs
from store.examples.busy_thread import BusyThread
from store.examples.seals import Seal, sealed, unsealed

log = structlog.get_logger(__name__)

_SEALS = "snapshots/seals/"
_GRAPHS = "snapshots/graphs/"
_ORPHAN_AGE_S = 3600.0


class SharedSnapshots:
    """What is published, by tenant. Everything blocks; errors are the blobs' own."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def seal(self, wanted: Seal) -> Seal | None:
        """What the published snapshot is of; None where there is none that is of what is wanted.

        `wanted.seq` is the end of the log, as for `Snapshots.find`.
        """
        known = self._known(wanted.tenant)
        if known is None or not known[0].fits(wanted) or known[0].seq > wanted.seq:
            return None
        return known[0]

    def graph(self, wanted: Seal) -> tuple[Seal, bytes] | None:
        """The published snapshot itself, under the same conditions; None also while it is being replaced."""
        known = self._known(wanted.tenant)
        if known is None or not known[0].fits(wanted) or known[0].seq > wanted.seq:
            return None
        seal, file = known
        data = self._blobs.get(_GRAPHS + str(file["file"]))
        if data is None or hashlib.sha256(data).hexdigest() != file["sha256"]:
            log.warning("index_snapshot_not_fetched", tenant=wanted.tenant)
            return None
        return seal, data

    def publish(self, seal: Seal, graph: bytes | bytearray) -> bool:
        """Replace what is published of a tenant; False where that is of the same and as fresh."""
        known = self._known(seal.tenant)
        if known is not None and known[0].fits(seal) and known[0].seq >= seal.seq:
            return False
        file = f"{seal.tenant}.{seal.seq}-{secrets.token_hex(4)}"
        self._blobs.put(_GRAPHS + file, graph)
        named = {"file": file, "size_bytes": len(graph), "sha256": hashlib.sha256(graph).hexdigest()}
        self._blobs.put(_SEALS + seal.tenant, json.dumps(sealed(seal, named)).encode())
        self._remove_graphs(seal.tenant, keep=file)
        return True

    def remove(self, tenant: str) -> None:
        """Publish nothing of a tenant."""
        self._blobs.remove([_SEALS + tenant])
        self._remove_graphs(tenant, keep=None)

    def sweep(self, older_than_s: float = _ORPHAN_AGE_S) -> int:
        """Remove graphs that no seal names, as a kill leaves them; gives how many."""
        graphs = self._blobs.names(_GRAPHS)
        named = set()
        for name in self._blobs.names(_SEALS):
            known = self._known(name.removeprefix(_SEALS))
            if known is not None:
                named.add(_GRAPHS + str(known[1]["file"]))
        before_s = time.time() - older_than_s
        orphans = [name for name, at_s in graphs.items() if at_s <= before_s and name not in named]
        self._blobs.remove(orphans)
        return len(orphans)

    def _known(self, tenant: str) -> tuple[Seal, dict[str, object]] | None:
        written = self._blobs.get(_SEALS + tenant)
        return None if written is None else unsealed(written)

    def _remove_graphs(self, tenant: str, keep: str | None) -> None:
        names = self._blobs.names(f"{_GRAPHS}{tenant}.")
        self._blobs.remove(name for name in names if keep is None or name != _GRAPHS + keep)


class Publisher(BusyThread[Seal]):
    """Publishes what was written to this process's folder: of seals, what is there by then."""

    name = "snapshot-publisher"

    def __init__(
        self,
        shared: SharedSnapshots,
        owner: Callable[[], bool],
        find: Callable[[Seal], tuple[Path, Seal] | None],
    ) -> None:
        """`owner`: whether this process is the one that publishes; may block, asked each time on this object's thread."""
        super().__init__()
        self._shared = shared
        self._owner = owner
        self._find = find
        self.published = 0
        """Snapshots published so far."""

    def _do(self, what: Seal) -> None:
        try:
            found = self._find(what) if self._owner() else None
            if found is not None:
                path, seal = found
                self.published += self._shared.publish(seal, path.read_bytes())
        except FileNotFoundError:
            # Replaced meanwhile by whoever will ask again, or removed.
            log.info("index_snapshot_gone", tenant=what.tenant)
        except Exception as error:
            log.error("index_snapshot_not_published", tenant=what.tenant, error=error)

    def _all_done(self) -> None:
        try:
            if self._owner():
                self._shared.sweep()
        except Exception as error:
            log.error("index_snapshots_not_swept", error=error)
