"""The ONNX metadata of a scorer's model file: its signature, its features and whether it was trained.

A model without this metadata, or with other metadata, is refused when it is opened rather than trusted at the first request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SIGNATURE = "features"
"""Inputs: scalars [n, s] and, optionally, request [1, d], example_questions [n, d] and example_answers [n, d] (all float32).
Outputs: quality_with [n] and quality_alone [1] or [n]; optionally helps [n] and harms [n]; each may also be a column,
[n, 1]. Files that declare another signature, such as the former `cross_encoder`, are refused."""
FORMAT = "1"
_PREFIX = "understudy.scorer."
_INPUTS = frozenset({"scalars"})
_OPTIONAL_INPUTS = frozenset({"request", "example_questions", "example_answers"})
OUTPUTS = ("quality_with", "quality_alone")
EFFECTS = ("helps", "harms")
"""Optional outputs: the shares mended and spoilt by each example (router.examples.set_quality)."""


class WrongArtifact(ValueError):
    """The file is not a scorer that this version can use. The text says why."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a scorer's model declares about itself."""

    dimensions: int = 0
    """Length of the embeddings it takes; 0 for a model that fits any."""
    features_version: str = ""
    features_names: tuple[str, ...] = ()
    embedding_version: str = ""
    """Version of the embeddings it was trained on; empty if it uses none."""
    prior: bool = False
    """Whether it is the untrained prior."""

    def metadata(self) -> dict[str, str]:
        """As ONNX metadata_props."""
        values = {
            "format": FORMAT,
            "signature": SIGNATURE,
            "dimensions": str(self.dimensions),
            "features_version": self.features_version,
            "features_names": json.dumps(self.features_names),
            "embedding_version": self.embedding_version,
            "prior": str(self.prior).lower(),
        }
        return {_PREFIX + name: value for name, value in values.items()}


def declared(metadata: Mapping[str, str]) -> Declared:
    """Reads what `Declared.metadata` returned. Raises WrongArtifact."""
    said = {name.removeprefix(_PREFIX): value for name, value in metadata.items() if name.startswith(_PREFIX)}
    if said.get("format") != FORMAT:
        raise WrongArtifact(
            f"it declares scorer format {said.get('format')!r}, this version reads {FORMAT!r}"
        )
    if said.get("signature") != SIGNATURE:
        raise WrongArtifact(
            f"it declares the signature {said.get('signature')!r}, this version reads {SIGNATURE!r}"
        )
    try:
        names = json.loads(said.get("features_names", "[]"))
        return Declared(
            int(said.get("dimensions", "0")),
            said.get("features_version", ""),
            tuple(str(name) for name in names),
            said.get("embedding_version", ""),
            said.get("prior") == "true",
        )
    except (ValueError, TypeError) as wrong:
        raise WrongArtifact(f"its metadata cannot be read: {wrong}") from wrong


def check_ports(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raises WrongArtifact unless a model's inputs and outputs are those of a scorer."""
    there = frozenset(inputs)
    if absent := _INPUTS - there:
        raise WrongArtifact(f"a scorer takes {', '.join(sorted(absent))}, which it does not")
    if unknown := there - _INPUTS - _OPTIONAL_INPUTS:
        raise WrongArtifact(f"it takes {', '.join(sorted(unknown))}, which no scorer is given")
    if missing := [name for name in OUTPUTS if name not in outputs]:
        raise WrongArtifact(f"a scorer gives {', '.join(missing)}, which it does not")
