"""How rare a word is, from the order of a vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.embedding.model import locate
from router.examples.rarity import FEWEST_WORDS, Rarity


def tokenizer(path: Path, vocabulary: Any, **more: Any) -> Path:
    path.write_text(json.dumps({"model": {"vocab": vocabulary}, **more}), encoding="utf-8")
    return path


def words(count: int) -> list[str]:
    letters = "abcdefghij"
    return ["w" + "".join(letters[int(digit)] for digit in str(i)) for i in range(count)]


@pytest.fixture(scope="module")
def english() -> Rarity:
    return Rarity.read(locate("package") / "tokenizer.json")


def test_the_embedders_vocabulary_puts_common_words_below_rare_ones(english: Rarity) -> None:
    assert not english.by_length
    order = [english(word) for word in ("the", "what", "city", "harbour", "meomild")]
    assert order == sorted(order)
    assert order[0] == 0.0
    assert order[-1] == 1.0


def test_numbers_and_identifiers_are_the_rarest(english: Rarity) -> None:
    assert {english(word) for word in ("410", "3.5", "qx-410", "a97x")} == {1.0}


def test_a_plural_is_no_rarer_than_its_singular(english: Rarity) -> None:
    assert english("whats") == english("what")
    assert english("ferries") < 1.0


def test_a_single_letter_tells_nothing(english: Rarity) -> None:
    assert english("a") == english("s") == 0.0


@pytest.mark.parametrize("mark", ["\u2581", "\u0120"])
def test_vocabularies_that_mark_a_words_start_count_marked_pieces_only(tmp_path: Path, mark: str) -> None:
    listed = words(FEWEST_WORDS + 10)
    pieces = {f"x{piece}": i for i, piece in enumerate(listed)}
    pieces |= {mark + word: len(pieces) + i for i, word in enumerate(listed)}
    rarity = Rarity.read(tokenizer(tmp_path / "t.json", pieces))
    assert rarity(listed[0]) == 0.0 < rarity(listed[5]) < rarity(listed[500]) < 1.0
    assert rarity("x" + listed[0]) == 1.0


def test_a_unigram_vocabulary_is_a_list_and_special_tokens_are_no_words(tmp_path: Path) -> None:
    listed = [[word, -1.0] for word in ["unk", *words(FEWEST_WORDS + 10)]]
    path = tokenizer(tmp_path / "t.json", listed, added_tokens=[{"content": "unk"}])
    assert Rarity.read(path)(words(1)[0]) == 0.0


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"model": {"vocab": {"the": 0}}}', '{"model": {"vocab": 3}}']
)
def test_without_a_usable_vocabulary_length_stands_for_rarity(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content, encoding="utf-8")
    rarity = Rarity.read(path)
    assert rarity.by_length
    assert rarity("of") == 0.0 < rarity("harbour") < rarity("incomprehensible") == rarity("410") == 1.0


def test_the_rarest_words_of_a_text_tell_what_it_is_about(english: Rarity) -> None:
    told = english.telling("What is the population of Eastwick, please? The harbour of Eastwick!")
    assert told[0] == "eastwick" and {"population", "harbour"} <= set(told)
    assert not {"is", "the", "of"} & set(told)
    assert english.telling("Zoë") == ["zoe"]
    assert len(english.telling(" ".join(words(50)))) == 8 and english.telling("") == []


def test_a_missing_file_is_no_error(tmp_path: Path) -> None:
    assert Rarity.read(tmp_path / "absent.json").by_length


def test_many_words_at_once_are_as_rare_as_one_by_one(english: Rarity) -> None:
    said = ["the", "cities", "meomild", "a", "q", "410", "qx-410", "harbours"]
    for rarity in (english, Rarity()):
        assert rarity.of(said) == {word: rarity(word) for word in said}
        assert list(rarity.of(said)) == said
