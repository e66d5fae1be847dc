"""Teaches the templates of requests from the bank at the start, and embeds examples anew where one was learnt since.

Runs on its own thread. Every worker learns for itself and only ever leaves out more than is left out already, so several at
work on one bank agree in the end. Until an example has its new embedding it counts as unlike anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog

from router.digest import shared_scope
from router.embedding.templates import Templates
from store.examples.bank import ExampleBank
from store.records import Example

if TYPE_CHECKING:
    from router.embedding.embedder import BlockingEmbedder

log = structlog.get_logger(__name__)

_TENANTS = 128
_TAUGHT = 500
"""The number of each tenant's newest examples by which it is taught at the start."""
_READ = 2000
"""The number of each tenant's newest examples that are looked at once something was learnt."""
_LOOK_AGAIN_S = 60.0
_GATHER_S = 2.0
"""Pause before it looks, so that pieces which become known one after the other are one matter."""
_PAUSE_S = 0.005
"""Pause between two texts, so that requests get the embedder first."""


class TemplateFollower:
    """Works on its own thread between `start` and `stop`."""

    def __init__(self, bank: ExampleBank, embedder: BlockingEmbedder, templates: Templates) -> None:
        self._bank = bank
        self._embedder = embedder
        self._templates = templates
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="template-follower", daemon=True)
        self._look_again_at = time.monotonic() + _LOOK_AGAIN_S
        self.done = 0
        """Number of examples embedded anew since the start."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the present text and waits for the thread to end."""
        self._stopping.set()
        self._templates.changed.set()
        self._thread.join()

    def _run(self) -> None:
        self._guarded(self._teach)
        while not self._stopping.is_set():
            self._templates.changed.wait(_LOOK_AGAIN_S)
            if not self._stopping.wait(_GATHER_S):
                self._guarded(self._follow_news)
                self._guarded(self._follow_rest)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            log.error("template_follower_failed", error=error)

    def _teach(self) -> None:
        """Teach the templates from the stored examples, since the process forgets them at its end."""
        tenants = sorted(self._bank.tenants().items(), key=lambda found: -found[1])[:_TENANTS]
        for tenant, _ in tenants:
            for example in reversed(self._bank.newest(tenant, _TAUGHT)):
                if self._stopping.is_set():
                    return
                self._templates.asked(tenant, example.scope, example.question)

    def _follow_news(self) -> None:
        """Looks at the newest examples of the scopes of which something was learnt."""
        news = self._templates.news()
        for tenant in {tenant for tenant, _ in news}:
            learnt = {instructions for of, instructions in news if of == tenant}
            newest = self._bank.newest(tenant, _READ)
            self._embed_anew(e for e in newest if shared_scope(e.scope) in learnt)

    def _follow_rest(self) -> None:
        """Now and then, looks at what came into the bank otherwise: by an import, from another worker."""
        if time.monotonic() < self._look_again_at:
            return
        for tenant in {tenant for tenant, _ in self._templates.known()}:
            self._embed_anew(self._bank.newest(tenant, _TAUGHT))
        self._look_again_at = time.monotonic() + _LOOK_AGAIN_S

    def _embed_anew(self, examples: Iterable[Example]) -> None:
        before = self.done
        for example in examples:
            digest = self._templates.digest(example.tenant, example.scope, example.question)
            text, now = digest.text, example.embedded_text
            # Another worker may know more: then its shorter text stays.
            if not digest.left_out or text == now or len(text) > len(now):
                continue
            if self._stopping.wait(_PAUSE_S):
                break
            vector, version = self._embedder.embed_blocking(text), self._embedder.version
            if self._bank.set_vector(example.id, vector, version, instead=(now, text)).result():
                self.done += 1
        if self.done > before:
            log.info("examples_digested", examples=self.done - before)
