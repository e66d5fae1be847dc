"""Text of the right length, and prefixes that are equal where the trace says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.errors import BadTrace
from loadtest.plan import WorkloadSpec
from loadtest.sources import FromFile, TraceLengths, WordStock
from loadtest.traces import TraceRow


@pytest.mark.parametrize("tokens", [0, 1, 17, 65_536, 100_001, 300_000])
@pytest.mark.parametrize("place", [0, 5, 65_535, 70_000])
def test_a_slice_of_the_stock_has_exactly_the_words_asked_for(tokens: int, place: int) -> None:
    assert len(WordStock(1).text(tokens, place).split()) == tokens


def test_equal_blocks_in_a_trace_become_equal_beginnings_of_prompts() -> None:
    rows = [TraceRow(0, 1500, 5, (1, 2, 3)), TraceRow(1, 1400, 6, (1, 2, 9)), TraceRow(2, 600, 7, (8, 2))]
    source = TraceLengths(rows, 1.0, 1)
    one, two, three = (str(source.ask(k).messages[0]["content"]) for k in range(3))
    shared = sum(a == b for a, b in zip(one.split(), two.split(), strict=False))
    assert shared >= 1020
    assert one.split()[0] != three.split()[0]
    assert [len(text.split()) for text in (one, two, three)] == pytest.approx([1500, 1400, 600], abs=4)
    assert [source.ask(k).max_tokens for k in range(4)] == [5, 6, 7, 5]


def test_a_traces_lengths_can_be_scaled_down() -> None:
    source = TraceLengths([TraceRow(0, 1000, 200)], 0.1, 1)
    ask = source.ask(0)
    assert len(str(ask.messages[0]["content"]).split()) == pytest.approx(100, abs=2)
    assert ask.max_tokens == 20


@pytest.mark.parametrize("line", ['{"nothing": 1}', '{"messages": []}', '{"messages": "hi"}', "[]", "{"])
def test_a_bad_line_of_a_request_file_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(BadTrace, match=r"requests\.jsonl line 2"):
        FromFile(path, WorkloadSpec())


def test_an_empty_request_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text("\n")
    with pytest.raises(BadTrace, match="is empty"):
        FromFile(path, WorkloadSpec())
