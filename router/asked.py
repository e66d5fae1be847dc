"""Describes what came in: a request as it arrived, and the chat completion that it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.placement import Placement
from engines.tracing import Trace

A = TypeVar("A", bound="Arrival")


@dataclass(frozen=True, slots=True)
class Reach:
    """The models, components and engines that a request may reach: its key, tenant and end user must all allow them."""

    models: tuple[tuple[str, ...], ...] = ()
    """For each of them that names models: the globs that it names. One of each must match."""
    region: str = ""
    """Only engines of this region are asked; empty: any."""
    priced_only: bool = False
    """Only what has a price: its dollars are limited."""
    own_account: bool = False
    """Its tenant has an upstream key of its own: what is stored upstream under it is the tenant's."""

    components: tuple[tuple[str, ...], ...] = ()
    """As `models`, of components of workflows."""

    def allows_component(self, name: str) -> bool:
        """Tell if its steps may ask this component."""
        return all(any(fnmatchcase(name, glob) for glob in globs) for globs in self.components)

    def allows_model(self, name: str) -> bool:
        """Tell if it may ask for the model of this name."""
        return all(any(fnmatchcase(name, glob) for glob in globs) for globs in self.models)

    def allows_region(self, region: str) -> bool:
        """Tell if an engine in this region may be asked."""
        return not self.region or region == self.region


@dataclass(frozen=True, slots=True)
class Guarded:
    """The result of asking guardrails about a request."""

    spent_s: float = 0.0
    bypassed: tuple[str, ...] = ()
    """Those that gave no verdict, and let pass what they do not judge."""
    by: str = ""
    """The guardrail that replaced what it says; empty: none."""


EVERYTHING = Reach()
"""Nothing is limited: there are no keys, or the key says nothing."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request before anybody read its body: when it came, to which path, and from whom."""

    id: str
    began: float
    """Seconds of time.perf_counter."""
    started_at_s: float
    """The same moment in seconds since 1970."""
    method: str = "POST"
    path: str = ""
    """Without its query: a query may carry a key."""
    tenant: str = "default"
    key_id: str | None = None
    """The gateway's own key that it came with; None if clients have none."""
    anonymous: bool = False
    """No credential came with it: nothing is remembered of it, and nothing remembered is used for it."""
    key_name: str = ""
    """The operator's name of the key; empty if clients have none. For books and labels."""
    tenant_name: str = ""
    """The operator's name of the tenant; empty if it was derived from a credential."""
    api: str = ""
    """Which API it speaks: the first segments of its path below the prefix (`chat`, `responses`, `messages`, `completions`,
    `embeddings`, `images`, `audio`, `files`), `other` for what is not known, empty for the gateway's own pages."""
    reach: Reach = EVERYTHING
    trace: Trace | None = None
    """Its place in a distributed trace; None if no telemetry is configured."""
    partition: str = ""
    """`user` or `tenant` where its key or tenant says how memory is kept apart; empty: as the configuration has it."""
    user: str = ""
    """The digest of the end user whom it names, whether they have a memory of their own or not. Known of requests with a
    gateway key, once their body was read."""
    guarded: Guarded | None = None
    """None: no guardrail was asked yet. Steps of runs come without, whatever their run's request was."""

    def of(
        self,
        kind: type[A],
        api: str,
        tenant: str,
        key_id: str | None = None,
        *,
        anonymous: bool = False,
        key_name: str = "",
        tenant_name: str = "",
        reach: Reach = EVERYTHING,
        partition: str = "",
        user: str = "",
    ) -> A:
        """The same with whose it is, as an arrival of a `kind`. dataclasses.replace takes thrice as long."""
        return kind(
            self.id,
            self.began,
            self.started_at_s,
            self.method,
            self.path,
            tenant,
            key_id,
            anonymous,
            key_name,
            tenant_name,
            api,
            reach,
            self.trace,
            partition,
            user,
        )


@dataclass(frozen=True, slots=True)
class Admitted(Arrival):
    """A request that was let in, with all that it may reach. Only gateway.admission makes one: without it no engine, no
    component and nothing stored is reached."""


@dataclass(frozen=True, slots=True)
class Controls:
    """The client's instructions for this one request."""

    no_store: bool = False
    """Nothing of this request or its answer is kept: `Cache-Control: no-store`, or `store: false` in the body."""
    no_cache: bool = False
    """Memory is not read; the fresh answer may be kept: `Cache-Control: no-cache`."""
    engine: str | None = None
    """This engine, whatever the policy says: `x-understudy-engine`."""
    max_examples: int | None = None
    """At most so many examples: `x-understudy-examples`."""
    preference: float | None = None
    """The dial for this request, 0 (cheapest) to 1 (best): `x-understudy-preference`."""
    scope: str | None = None
    """The client's own name for its instructions, instead of their text: `x-understudy-scope`."""
    task: str | None = None
    """The client's own name for the task that it belongs to: `x-understudy-task`."""
    session: str | None = None
    """The client's own name for its conversation: `x-understudy-session`."""

    @property
    def steers(self) -> bool:
        """Tell if the client says how it is to be answered: then no remembered answer stands for it, nor its for others."""
        return self.engine is not None or self.max_examples is not None or self.preference is not None


@dataclass(frozen=True, slots=True)
class Asked:
    """A chat completion to be answered."""

    arrival: Admitted
    target: str
    """The raw request target below the gateway's prefix, query included: an engine is asked the same below its base URL."""
    headers: CIMultiDict[str]
    """The client's end-to-end headers, as an engine gets them. Never changed in place."""
    chat: ChatRequest
    controls: Controls = Controls()
    max_kept_bytes: int = 2**20
    """An answer larger than this is sent on and not remembered."""
    contributor: str = ""
    """An opaque name of who sent it (learning.bank.contributor); empty when unknown."""
    end_user: str = ""
    """The end user whose memory alone is read and written, as a digest; empty: what the tenant shares."""
    placement: Placement | None = None
    """Its place among the requests that feed each other; None: it stands alone, and its client waits."""
    holder: str = ""
    """The engine that holds what the request names; empty if none is known to."""
    not_at: frozenset[str] = frozenset()
    """Replicas that do not hold it."""
    user: str = ""
    """The end user as the client names them; empty if it names none."""

    @property
    def remembered_for(self) -> str:
        """Return the owner of its exact answers: the tenant, or one end user of the tenant."""
        return in_memory_of(self.arrival.tenant, self.end_user)


def in_memory_of(tenant: str, end_user: str) -> str:
    """The name under which exact answers are kept: the tenant's, or that of one of its end users."""
    return f"{tenant}/{end_user}" if end_user else tenant
