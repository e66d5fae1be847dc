"""The stage of the replay benchmark: a bank filled from another engine's log, traffic that uses it, and a day to judge by.

Simulated: the world, who asks, the engines, the judge (engines/simulated_*). Real: store, embedder, index, digests, twins,
the ledger of uses and gains, retrieval, prompts, planner, runner, distil and expand. The line between request and answer is
written out here, one request at a time, since the question is what the bank is worth and not how fast it is. All of it
happens within minutes, so the decay of gains plays no part.
"""

from __future__ import annotations

import random
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.simulated_world import judging
from engines.chat import estimated_tokens
from learning.bank.demonstrations import as_chat
from learning.replay.gain import UNJUDGED, correction, gain, model_cost
from router.digest import instructions, question, scope_of
from router.embedding.retriever import Retriever
from router.plan import Candidate
from router.prompt import with_examples
from router.wording.lexical_things import about_other_things, things
from simulation.judge import Leniency
from simulation.minds import Aptitude, reply
from simulation.stream import Ask, Stream
from simulation.world import World
from store.admission.cutting import cut
from store.records import NewExample, Vector
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.file import parse_config

TENANT = "default"
PRICES = {"small": (0.15, 0.60), "large": (2.50, 10.00)}
"""US dollars per million tokens in and out, as in the demo; judge and generator cost what the large one does."""
OLD_ENGINE = Aptitude(knows=0.7, one_off=0.85, lucky=0.0)
"""Who answered before the gateway came, and whose log was imported: right about seven facts in ten, wrong about the others
time and again, because it does not know them. Nobody gave feedback on any of it."""
OLD_SEED = 1_000_003
READINGS = 4
"""Answers to each request of the last day, so that luck counts for less."""
THETA, FLOOR, MOST = 0.77, 0.6, 5
"""The demo's rule: a past question within THETA that names the same things sends a request to the small engine, with the
MOST nearest within FLOOR as examples."""


def config(folder: Path, model_cache: Path, world: World, **replay: Any) -> Config:
    """The settings of the gateway whose bank this is; `replay`: its less common ones of replay."""

    def engine(role: str, price: str) -> dict[str, Any]:
        usd = dict(zip(("input_usd_per_mtok", "output_usd_per_mtok"), PRICES[price], strict=True))
        return {
            "kind": "simulated",
            "role": role,
            "seed": world.seed,
            "facts": len(world.facts),
            "pace": 0,
            "price": usd,
        }

    return parse_config(
        {
            "engines": {
                "small": engine("understudy", "small"),
                "large": engine("lead", "large"),
                "judge": engine("judge", "large"),
                "writer": engine("generator", "large"),
            },
            "models": {"m": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
            "memory": {
                "data_dir": str(folder),
                "advanced": {"embedding_cache_dir": str(model_cache), "embedding_deadline_ms": 60_000},
            },
            "replay": {"judge": "judge", "advanced": {"generator": "writer"} | replay},
        }
    )


@dataclass(frozen=True, slots=True)
class Served:
    """One request of a day: how near the bank came, and how good the small engine was with what it got."""

    nearest: float
    """Of the examples that name the same things; 0 without any."""
    grade: float
    """Of the small engine's answer with these examples, by the world's own truth."""
    holds: bool
    """Whether an example among them states the right value of every fact that was asked for."""
    about_facts: bool


class Stage:
    """One seed's world, its stream cut into three days, and the bank as it stands."""

    def __init__(self, seed: int, days: Sequence[int], facts: int, model_cache: Path) -> None:
        self.seed = seed
        self.world = World(seed, facts)
        self.model_cache = model_cache
        asks = list(Stream(self.world, sum(days), seed=seed))
        starts = [sum(days[:n]) for n in range(len(days) + 1)]
        self.days = [asks[a:b] for a, b in pairwise(starts)]
        self._vectors: dict[str, Vector] = {}

    def config(self, folder: Path, **replay: Any) -> Config:
        """See `config`."""
        return config(folder, self.model_cache, self.world, **replay)

    @contextmanager
    def memory(self, folder: Path, **replay: Any) -> Iterator[tuple[Memory, Config]]:
        """The open memory of a folder."""
        made = self.config(folder, **replay)
        assert made.memory is not None
        memory = Memory.open(made.memory, made.retention)
        try:
            yield memory, made
        finally:
            memory.close()

    def prepare(self, folder: Path, judged_share: float) -> dict[str, float]:
        """Import the first day's log, then serve the second day on it. Gives figures of both."""
        with self.memory(folder) as (memory, _):
            for ask in self.days[0]:
                answer = reply(self.world, "understudy", OLD_SEED, ask.messages, aptitude=OLD_ENGINE)
                self._remember(memory, ask, answer, "import")
            follow(memory)
            imported = memory.store.examples.count(TENANT)
            rng = random.Random(self.seed)
            offloaded, judged = 0, 0
            for ask in self.days[1]:
                served, used, answer = self.serve(memory, ask)
                if served.nearest < THETA:
                    answer = reply(self.world, "lead", self.world.seed, ask.messages)
                    self._remember(memory, ask, answer, "large")
                    follow(memory)
                    continue
                offloaded += 1
                ids = [c.example.id for c in used]
                cost = model_cost(PRICES["small"][1], PRICES["large"][1])
                memory.store.examples.ledger.note_use(ids)
                memory.store.examples.ledger.note_gain(ids, gain(cost, UNJUDGED))
                if rng.random() < judged_share:
                    judged += 1
                    self._judge(memory, ask, answer, ids, cost)
            written = memory.store.examples.flush_uses()
            if written is not None:
                written.result()
            return {
                "imported": imported,
                "bank": memory.store.examples.count(TENANT),
                "offloaded": offloaded / max(1, len(self.days[1])),
                "judged": judged,
                "right_in_bank": self.right(memory),
            }

    def serve(self, memory: Memory, ask: Ask, readings: int = 1) -> tuple[Served, list[Candidate], str]:
        """What the small engine says with the nearest examples that name the same things; graded over `readings`."""
        text = question(ask.messages)
        assert memory.store.indexes is not None
        vector = self._vector(memory, text)
        retriever = Retriever(memory.store.indexes, memory.store.examples, neighbours=32, floor=FLOOR)
        under = instructions(as_chat({"messages": list(ask.messages)}))
        near = retriever.nearest(TENANT, scope_of(under), vector)
        asked = things(text)
        near = [c for c in near if not about_other_things(asked, things(c.example.question))][:MOST]
        shown = with_examples(ask.messages, list(reversed(near)))
        said = [reply(self.world, "understudy", self.world.seed, shown, choice) for choice in range(readings)]
        holds = bool(ask.facts) and all(
            any(
                f in self.world.read(c.example.question).facts
                and f.value.casefold() in self.world.stated(f, c.example.answer)
                for c in near
            )
            for f in ask.facts
        )
        served = Served(
            max((c.similarity for c in near), default=0.0),
            statistics.mean(self.world.grade(ask.messages, each) for each in said),
            holds,
            bool(ask.facts),
        )
        return served, near, said[0]

    def day(self, memory: Memory) -> list[Served]:
        """The last day on the bank as it stands; nothing is remembered of it."""
        return [self.serve(memory, ask, READINGS)[0] for ask in self.days[2]]

    def right(self, memory: Memory) -> float:
        """Share of the bank's answers that are right."""
        bank = memory.store.examples.page(TENANT, limit=100_000)
        return statistics.mean(self.world.grade(e.question, e.answer) > 0.5 for e in bank)

    def _vector(self, memory: Memory, text: str) -> Vector:
        """Each text is embedded once for all arms: they meet the same requests."""
        known = self._vectors.get(text)
        if known is None:
            assert memory.embedder is not None
            known = self._vectors[text] = memory.embedder.embed_blocking(cut(text, 1500))
        return known

    def _remember(self, memory: Memory, ask: Ask, answer: str, source: str) -> None:
        chat = as_chat({"messages": list(ask.messages)})
        text, under = question(ask.messages), instructions(chat)
        assert memory.embedder is not None and memory.store.indexes is not None
        vector = self._vector(memory, text)
        memory.store.examples.admit(
            NewExample(
                tenant=TENANT,
                scope=scope_of(under),
                question=text,
                answer=answer,
                embedded_text=cut(text, 1500),
                vector=vector,
                embedding_version=memory.embedder.version,
                source_engine=source,
                request_id=f"{source}-{ask.number}",
                prompt_tokens=sum(estimated_tokens(m["content"]) + 4 for m in ask.messages),
                completion_tokens=estimated_tokens(answer),
                neighbours=tuple(memory.store.indexes.nearest(TENANT, vector, 4)),
                instructions=under,
            )
        ).result()

    def _judge(self, memory: Memory, ask: Ask, answer: str, ids: list[int], cost: float) -> None:
        """As learning.outcomes.judging does: against the lead's own answer, both orders, two votes each."""
        reference = reply(self.world, "lead", self.world.seed, ask.messages)
        asked = [dict(m) for m in ask.messages]
        said = judging.judged(self.world, asked, answer, reference, Leniency(), 2)
        memory.store.examples.ledger.note_gain(ids, correction(cost, [], [said.quality]))
        alone = reply(self.world, "understudy", self.world.seed, ask.messages)
        for id in ids:
            # As learning.outcomes.comparison: a bad answer is the examples' fault only if it is worse than without them.
            if said.quality >= 0.5 or self.world.grade(ask.messages, alone) > 0.5:
                memory.store.examples.ledger.note_quality(id, said.quality)


def follow(memory: Memory) -> None:
    """Wait until the index holds all that was admitted."""
    assert memory.store.follower is not None
    memory.store.follower.wait_for(memory.store.examples.last_seq(), 30.0)


def copied(folder: Path, to: Path) -> Path:
    """The same data folder once more. Nobody may have it open."""
    shutil.copytree(folder, to)
    return to
