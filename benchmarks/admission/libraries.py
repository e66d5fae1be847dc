"""Other libraries behind one face, for comparison only: presidio-analyzer, detect-secrets, datafog. Used if installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Found = Callable[[str], list[tuple[int, int]]]
"""From a text to the places (start, end) where something was found."""


def private_data_peers() -> Iterator[tuple[str, Found]]:
    """(name, finder) of the libraries for personal data that this environment has."""
    for make in (_presidio, _presidio_sure, _datafog):
        try:
            yield make.__name__.strip("_").replace("_", " "), make()
        except ImportError:
            continue


def secret_peers() -> Iterator[tuple[str, Found]]:
    """The same for secrets."""
    for make in (_detect_secrets, _detect_secrets_certain):
        try:
            yield make.__name__.strip("_").replace("_", " "), make()
        except ImportError:
            continue


def _presidio(threshold: float = 0.0) -> Found:
    """Every pattern recogniser that is loaded by default for English, without a language model."""
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NoOpNlpEngine

    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"])
    for name in [r.name for r in registry.recognizers if "spacy" in r.name.lower()]:
        registry.remove_recognizer(name)
    kinds = [e for e in registry.get_supported_entities(["en"]) if e not in ("URL", "DATE_TIME")]
    engine = AnalyzerEngine(
        registry=registry,
        nlp_engine=NoOpNlpEngine([{"lang_code": "en", "model_name": "no_op"}]),
        supported_languages=["en"],
    )
    return lambda text: [
        (r.start, r.end)
        for r in engine.analyze(text, language="en", entities=kinds, score_threshold=threshold)
    ]


def _presidio_sure() -> Found:
    """The same, only findings with a score from 0.4 on."""
    return _presidio(0.4)


def _datafog() -> Found:
    import datafog

    def find(text: str) -> list[tuple[int, int]]:
        result = datafog.scan(text, engine="regex")
        kinds = {"DATE", "ZIP_CODE"}
        return [(e.start, e.end) for e in result.entities if e.type not in kinds]

    return find


def _plugins(without: tuple[str, ...]) -> Any:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    return [p() for p in get_mapping_from_secret_type_to_class().values() if p.__name__ not in without]


def _detect_secrets(without: tuple[str, ...] = ("IPPublicDetector",)) -> Found:
    """Every plugin of detect-secrets, on single lines, as its own scanner does; its file filters left out."""
    plugins = _plugins(without)

    def find(text: str) -> list[tuple[int, int]]:
        # Several of its plugins return only a piece of the secret: a finding counts for the whole text.
        lines = text.split("\n")
        found = any(p.analyze_line(filename="-", line=line, line_number=0) for line in lines for p in plugins)
        return [(0, len(text))] if found else []

    return find


def _detect_secrets_certain() -> Found:
    """The same without its entropy and keyword plugins."""
    return _detect_secrets(
        ("IPPublicDetector", "Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector")
    )
