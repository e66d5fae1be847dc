"""What a scorer's model file declares of itself, in ONNX metadata: its signature, the scalars it was trained on, what it is.

A model that says nothing, or something else, is refused when it is opened rather than trusted at the first request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Signature = Literal["features", "cross_encoder"]
"""features: scalars [n, s] and, where it looks at them, request [1, d], example_questions [n, d] and example_answers [n, d]
(all float32) to quality_with [n] and quality_alone [1] or [n]; if it tells them apart, also helps [n] and harms [n]; each
may also be a column, [n, 1].
cross_encoder: input_ids, attention_mask and, if declared, token_type_ids, all int64 [n + 1, tokens], to quality [n + 1]; the
first row is the request by itself."""

FORMAT = "1"
_PREFIX = "understudy.scorer."
INPUTS: Mapping[str, frozenset[str]] = {
    "features": frozenset({"scalars"}),
    "cross_encoder": frozenset({"input_ids", "attention_mask"}),
}
OPTIONAL_INPUTS: Mapping[str, frozenset[str]] = {
    "features": frozenset({"request", "example_questions", "example_answers"}),
    "cross_encoder": frozenset({"token_type_ids"}),
}
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "features": ("quality_with", "quality_alone"),
    "cross_encoder": ("quality",),
}

EFFECTS = ("helps", "harms")
"""Outputs that a features model may have besides: shares mended and spoilt by each example (router.examples.set_quality)."""


class WrongArtifact(ValueError):
    """The file is no scorer this version can use. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a scorer's model says of itself."""

    signature: Signature
    dimensions: int = 0
    """Of the embeddings it takes; 0 for a cross-encoder, and for a model that fits any."""
    features_version: str = ""
    features_names: tuple[str, ...] = ()
    embedding_version: str = ""
    """Whose vectors it was trained on; empty if it looks at none."""
    prior: bool = False
    """Nobody trained it: it is what was assumed before anything was known."""

    def metadata(self) -> dict[str, str]:
        """As ONNX metadata_props."""
        values = {
            "format": FORMAT,
            "signature": self.signature,
            "dimensions": str(self.dimensions),
            "features_version": self.features_version,
            "features_names": json.dumps(self.features_names),
            "embedding_version": self.embedding_version,
            "prior": str(self.prior).lower(),
        }
        return {_PREFIX + name: value for name, value in values.items()}


def declared(metadata: Mapping[str, str]) -> Declared:
    """Reads `Declared.metadata` back. Raises WrongArtifact."""
    said = {name.removeprefix(_PREFIX): value for name, value in metadata.items() if name.startswith(_PREFIX)}
    if said.get("format") != FORMAT:
        raise WrongArtifact(
            f"it declares scorer format {said.get('format')!r}, this version reads {FORMAT!r}"
        )
    signature: Signature
    match said.get("signature"):
        case "features":
            signature = "features"
        case "cross_encoder":
            signature = "cross_encoder"
        case unknown:
            raise WrongArtifact(f"it declares the signature {unknown!r}, which is not known")
    try:
        names = json.loads(said.get("features_names", "[]"))
        return Declared(
            signature,
            int(said.get("dimensions", "0")),
            said.get("features_version", ""),
            tuple(str(name) for name in names),
            said.get("embedding_version", ""),
            said.get("prior") == "true",
        )
    except (ValueError, TypeError) as wrong:
        raise WrongArtifact(f"its metadata cannot be read: {wrong}") from wrong


def check_ports(signature: Signature, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raises WrongArtifact unless a model's inputs and outputs are those of its signature."""
    there, needed = frozenset(inputs), INPUTS[signature]
    if absent := needed - there:
        raise WrongArtifact(f"a {signature} scorer takes {', '.join(sorted(absent))}, which it does not")
    if unknown := there - needed - OPTIONAL_INPUTS[signature]:
        raise WrongArtifact(f"it takes {', '.join(sorted(unknown))}, which no {signature} scorer is given")
    if missing := [name for name in OUTPUTS[signature] if name not in outputs]:
        raise WrongArtifact(f"a {signature} scorer gives {', '.join(missing)}, which it does not")
