"""Every make of trace becomes the same rows; a bad one says where it is bad."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from loadtest.errors import BadTrace
from loadtest.traces import TraceRow, read_trace

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize(
    "text",
    [
        "t_s,tokens_in,tokens_out\n10.0,374,44\n14.5,396,109\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:51.1805900,396,109\n",
        "Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,,ChatGPT,374,44,418,Conversation log\n9.5,,GPT-4,396,109,505,API log\n",
        '{"t_ms": 1000, "tokens_in": 374, "tokens_out": 44}\n{"t_ms": 5500, "tokens_in": 396, "tokens_out": 109}\n',
        '{"timestamp": 0, "input_length": 374, "output_length": 44}\n\n'
        '{"timestamp": 4500, "input_length": 396, "output_length": 109, "hash_ids": []}\n',
    ],
    ids=["plain", "azure", "burstgpt", "jsonl", "mooncake"],
)
def test_every_make_reads_as_the_same_rows_zipped_or_not(tmp_path: Path, text: str) -> None:
    plain, zipped = tmp_path / "trace", tmp_path / "trace.gz"
    plain.write_text(text)
    zipped.write_bytes(gzip.compress(text.encode()))
    for path in (plain, zipped):
        first, second = read_trace(path)
        assert first == TraceRow(0.0, 374, 44)
        assert (second.t_s, second.tokens_in, second.tokens_out) == (pytest.approx(4.5), 396, 109)


def test_rows_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("t_s,tokens_in,tokens_out\n3,1,1\n1,2,2\n")
    assert [row.t_s for row in read_trace(path)] == [0.0, 2.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("t_s,tokens_in,tokens_out\n", "no rows"),
        ("a,b,c\n1,2,3\n", "line 1: unknown columns"),
        ("t_s,tokens_in,tokens_out\n1,2,3\n4,five,6\n", "line 3: '4,five,6'"),
        ("t_s,tokens_in,tokens_out\n1,2\n", "line 2"),
        ("t_s,tokens_in,tokens_out\n1,-2,3\n", "not negative"),
        ("t_s,tokens_in,tokens_out\nnan,2,3\n", "finite"),
        ('{"t_ms": 1}\n', "line 1"),
        ('{"t_ms": 1, "tokens_in": 2, "tokens_out": 3}\nnot json\n', "line 2"),
    ],
)
def test_a_bad_trace_says_where_and_why(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.trace"
    path.write_text(text)
    with pytest.raises(BadTrace) as error:
        read_trace(path)
    assert str(path) in str(error.value) and said in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"absent\.csv"):
        read_trace(tmp_path / "absent.csv")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"t_s,tokens_in,tokens_out\n" + b"1,2,3\n" * 999)[:-20])
    with pytest.raises(BadTrace, match=r"cut\.gz"):
        read_trace(cut)


@pytest.mark.parametrize(
    ("name", "rows", "mean_in"),
    [
        ("trace_azure2023_conv.csv.gz", 19366, 1154.7),
        ("trace_mooncake_conversation.jsonl.gz", 12031, 12035.1),
    ],
)
def test_the_recorded_traces_read_whole(name: str, rows: int, mean_in: float) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found = read_trace(path)
    assert len(found) == rows
    assert sum(row.tokens_in for row in found) / rows == pytest.approx(mean_in, abs=0.1)
    assert bool(found[0].hash_ids) == ("mooncake" in name)
