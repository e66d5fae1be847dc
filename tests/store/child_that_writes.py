"""Run by test_database.py: writes examples and exact answers, and prints each one's name once it is acknowledged."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from pathlib import Path

from store.answers.exact_cache import ExactCache
from store.examples.bank import ExampleBank
from store.records import ExactAnswer, NewExample
from store.sqlite.database import Database

path, name, *rest = sys.argv[1:]
db = Database.open(Path(path))
bank = ExampleBank(db)
cache = ExactCache(db, ttl_s=1e9, memory_bytes=10_000, disk_bytes=10**9, max_entry_bytes=10**6)
waiting = deque()
numbers = range(int(rest[0]) // 2) if rest else itertools.count()
for number in numbers:
    one = f"{name}-{number}"
    text = one + "x" * (number % 5000)
    waiting.append(
        ("example", one, bank.add(NewExample("a1", "", text, text, text, None, "v1", "large", one)))
    )
    waiting.append(
        ("answer", one, cache.put(one.encode(), "a1", ExactAnswer(text.encode(), "text/plain", "large", 1.0)))
    )
    while len(waiting) > 50 or (rest and number == numbers[-1] and waiting):
        kind, which, future = waiting.popleft()
        future.result(60)
        print(kind, which, flush=True)
db.close()
