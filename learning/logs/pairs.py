"""Reads the requests and answers of a log in the order in which they came, the latest `most` of them.

The formats are those of `understudy import` (learning.bank.importing.formats). Asks nobody and stores nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engines.chat_json import parse_object
from engines.errors import RequestError
from learning.bank.importing.formats import BadLine, BatchInput, Exported, Pair, read_line
from learning.bank.importing.lines import lines, opened
from store.examples.batch_inputs import BatchInputs

Advanced = Callable[[int, int], None]
"""Called with bytes read and the file's size, 0 if unknown."""


@dataclass(slots=True)
class ReadLog:
    """The requests and answers that were read from a log."""

    pairs: list[Pair]
    """In the order in which they came."""
    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Lines that cannot be replayed, by reason."""
    older: int = 0
    """Pairs that were left out because there are more than `most` later ones."""


def read_log(
    paths: Sequence[str],
    *,
    format: str = "auto",
    most: int,
    begin: Callable[[str], None] = lambda path: None,
    advanced: Advanced = lambda read, size: None,
) -> ReadLog:
    """Read files of JSON lines. A line without a time stands where it is in its file. Raises OSError and BadFile."""
    found = ReadLog([])
    inputs = BatchInputs()
    count = 0

    def placed() -> Iterator[tuple[float, int, Pair]]:
        nonlocal count
        at_s = 0.0
        for path in paths:
            begin(path)
            for pair in _pairs(path, format, inputs, found, advanced):
                at_s = pair.created_at_s if pair.created_at_s is not None else at_s
                count += 1
                yield at_s, count, pair

    try:
        latest = heapq.nlargest(most, placed(), key=lambda each: each[:2])
    finally:
        inputs.close()
    found.pairs = [pair for _, _, pair in reversed(latest)]
    found.older = count - len(latest)
    return found


def _pairs(path: str, format: str, inputs: BatchInputs, found: ReadLog, advanced: Advanced) -> Iterator[Pair]:
    with opened(path) as (file, read_bytes, size_bytes):
        for line in lines(file):
            found.lines += 1
            if found.lines % 1000 == 0:
                advanced(read_bytes(), size_bytes)
            try:
                pair = _pair(line.text, format, inputs)
            except (BadLine, RequestError) as error:
                found.left_out[str(error)[:120]] += 1
                continue
            if pair is None:
                found.lines -= 1
            else:
                yield pair


def _pair(text: bytes | None, format: str, inputs: BatchInputs) -> Pair | None:
    """The pair on a line; None for a batch's request, whose answer comes later. Raises BadLine and RequestError."""
    if text is None:
        raise BadLine("longer than is read")
    read = read_line(parse_object(text), format)
    if isinstance(read, Exported):
        raise BadLine("an exported example, not a request of a log")
    if isinstance(read, BatchInput):
        inputs.put(read.custom_id, read.body)
        return None
    if isinstance(read, Pair):
        pair = read
    else:
        request = inputs.get(read.custom_id)
        if request is None:
            raise BadLine("the batch's request is not there: name its input file before its output")
        pair = read.joined(request)
    if not pair.answer.strip():
        raise BadLine("its answer is empty")
    return pair
