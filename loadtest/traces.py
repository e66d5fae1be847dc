"""Recorded arrivals: reads traces of several formats, plain or gzipped, as rows of one type.

CSV   t_s,tokens_in,tokens_out                                   seconds from the start
CSV   TIMESTAMP,ContextTokens,GeneratedTokens                    Azure LLM inference traces 2023 and 2024
CSV   Timestamp,Model,Request tokens,Response tokens,...         BurstGPT
JSONL {"t_ms" | "timestamp": ms, "tokens_in" | "input_length", "tokens_out" | "output_length", "hash_ids"}  Mooncake
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from loadtest.errors import BadTrace

MOONCAKE_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request: its time (seconds after the first), its lengths, and the prefix blocks it shares."""

    t_s: float
    tokens_in: int
    tokens_out: int
    hash_ids: tuple[int, ...] = ()


def open_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, gzipped or not. Raises BadTrace if it cannot be read."""
    try:
        with path.open("rb") as probe:
            zipped = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8-sig") as lines:
            yield from lines
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadTrace(f"cannot read {path}: {error}") from None


def read_trace(path: Path) -> list[TraceRow]:
    """Every row, sorted by time, with the first at 0 s.

    Raises BadTrace naming the file, the line and the fault.
    """
    lines = open_lines(path)
    first = next(lines, "")
    if not first.strip():
        raise BadTrace(f"{path} is empty: a trace needs at least one request")
    read = _read_jsonl if first.lstrip().startswith("{") else _read_csv
    rows = list(read(path, first, lines))
    if not rows:
        raise BadTrace(f"{path} has a header and no rows: a trace needs at least one request")
    rows.sort(key=lambda row: row.t_s)
    origin = rows[0].t_s
    return [TraceRow(row.t_s - origin, row.tokens_in, row.tokens_out, row.hash_ids) for row in rows]


def _read_csv(path: Path, header_line: str, lines: Iterator[str]) -> Iterator[TraceRow]:
    header = [name.strip().lower() for name in next(csv.reader([header_line]))]
    for columns in (
        ("t_s", "tokens_in", "tokens_out"),
        ("timestamp", "contexttokens", "generatedtokens"),
        ("timestamp", "request tokens", "response tokens"),
    ):
        if all(name in header for name in columns):
            at, tokens_in, tokens_out = (header.index(name) for name in columns)
            break
    else:
        raise BadTrace(
            f"{path} line 1: unknown columns {', '.join(header)!r}; known are t_s,tokens_in,tokens_out;"
            " TIMESTAMP,ContextTokens,GeneratedTokens (Azure); Timestamp,Request tokens,Response tokens (BurstGPT)"
        )
    for number, fields in enumerate(csv.reader(lines), start=2):
        if not fields:
            continue
        try:
            row = TraceRow(
                _seconds(fields[at]), int(float(fields[tokens_in])), int(float(fields[tokens_out]))
            )
        except (ValueError, IndexError) as error:
            raise BadTrace(
                f"{path} line {number}: {','.join(fields)[:120]!r} is not a request ({error})"
            ) from None
        yield _checked(row, path, number)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        # Azure writes seven decimals of a second, one more than Python reads.
        whole, dot, fraction = text.strip().removesuffix("Z").partition(".")
        digits = fraction.split("+")[0]
        base = datetime.fromisoformat(whole)
        return (base - datetime(2000, 1, 1)).total_seconds() + (float(f"0.{digits}") if dot else 0.0)


def _read_jsonl(path: Path, first: str, lines: Iterator[str]) -> Iterator[TraceRow]:
    for number, line in enumerate(_chain(first, lines), start=1):
        if not line.strip():
            continue
        try:
            item = orjson.loads(line)
            when_ms = item["t_ms"] if "t_ms" in item else item["timestamp"]
            tokens_in = item["tokens_in"] if "tokens_in" in item else item["input_length"]
            tokens_out = item["tokens_out"] if "tokens_out" in item else item["output_length"]
            blocks = tuple(int(block) for block in item.get("hash_ids") or ())
            row = TraceRow(float(when_ms) / 1000, int(tokens_in), int(tokens_out), blocks)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadTrace(
                f"{path} line {number}: {line.strip()[:120]!r} is not a request"
                f" (needs t_ms or timestamp, tokens_in or input_length, tokens_out or output_length; {error!r})"
            ) from None
        yield _checked(row, path, number)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _checked(row: TraceRow, path: Path, number: int) -> TraceRow:
    if row.tokens_in < 0 or row.tokens_out < 0 or not -1e12 < row.t_s < 1e12:
        raise BadTrace(
            f"{path} line {number}: time and token counts must be finite and not negative, got {row}"
        )
    return row
