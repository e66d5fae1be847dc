"""Run by test_example_manager.py: imports, evicts, re-embeds, accounts and compacts at once, and prints what is done."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path

from store import Store
from store.examples.capacity import compact, make_room
from tests.store.behind import admit_each, database
from tests.store.rows import new_example, unit_vector

folder, life = Path(sys.argv[1]), int(sys.argv[2])
memory = Store.open(folder, dimensions=8, embedding_version="v2", poll_s=0.001, save_every_s=0.001)
bank = memory.examples
saying = threading.Lock()


def say(*words: object) -> None:
    with saying:
        print(*words, flush=True)


def take_in(tenant: str) -> None:
    # Half of it is yet to be embedded anew, as after a change of the embedder.
    news = (
        new_example(
            number,
            tenant,
            request_id=f"{life}-{number}",
            answer="x" * (number % 3000),
            embedding_version=f"v{1 + number % 2}",
        )
        for number in itertools.count()
    )
    for admitted in admit_each(bank, news, chunk=20):
        time.sleep(0.001)
        say("kept", tenant, admitted.example.id, admitted.example.request_id)


def evict() -> None:
    while True:
        gone = make_room(bank, "b2", max_examples=60, max_bytes=200_000, batch=30)
        if gone.examples:
            say("evicted", gone.examples)
        compact(database(memory), keep_removals_s=0.2, batch=5)


def embed() -> None:
    while True:
        for waiting in bank.without_vector("v2", 20):
            if bank.set_vector(waiting.id, unit_vector(waiting.id), "v2").result():
                say("embedded", waiting.id)
            bank.note_use([waiting.id])
        bank.flush_uses()


threads = [threading.Thread(target=take_in, args=(tenant,), daemon=True) for tenant in ("a1", "b2")]
threads += [threading.Thread(target=evict, daemon=True), threading.Thread(target=embed, daemon=True)]
for thread in threads:
    thread.start()
threads[0].join()
