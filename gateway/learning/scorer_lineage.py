"""Which scorer stands behind another: a cross-encoder that is late is stood in for by the fast one that it came after."""

from __future__ import annotations

from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord

_MOST_STEPS = 20


def is_cross_encoder(model: bytes) -> bool:
    """Whether a scorer's file declares that signature (router.examples.scorer_artifact)."""
    # The metadata stands in the model in the clear; loading it merely to ask would cost a second session.
    return b"cross_encoder" in model


def features_behind(artifacts: Artifacts, record: ArtifactRecord | None) -> ArtifactRecord | None:
    """The nearest version from `record` back, by parents, that has the `features` signature and can be read.

    None where there is none, and so the prior is next. A parent is only ever the tenant's own, or the operator's.
    """
    tenants = {record.tenant, ""} if record is not None else set()
    for _ in range(_MOST_STEPS):
        if record is None or record.tenant not in tenants:
            return None
        try:
            if not is_cross_encoder(artifacts.read(record)):
                return record
        except ArtifactBroken:
            # Gone, or damaged: what it was made from may be there still.
            pass
        record = artifacts.get(record.parent) if record.parent is not None else None
    return None
