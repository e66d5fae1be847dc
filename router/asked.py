"""What came in: a request as it arrived, and the chat completion that it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.placement import Placement


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
    """The gateway's own key that it came with; None where clients have none."""
    anonymous: bool = False
    """No credential came with it: nothing is remembered of it, and nothing remembered is used for it."""


@dataclass(frozen=True, slots=True)
class Controls:
    """How the client steers this one request."""

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
        """Whether the client says how it is to be answered: then no remembered answer stands for it, nor its for others."""
        return self.engine is not None or self.max_examples is not None or self.preference is not None


@dataclass(frozen=True, slots=True)
class Asked:
    """A chat completion to be answered."""

    arrival: Arrival
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
    """Where it stands among the requests that feed each other; None: it stands alone, and its client waits."""

    @property
    def remembered_for(self) -> str:
        """Whose exact answers are its own: the tenant's, or those of one end user of the tenant."""
        return in_memory_of(self.arrival.tenant, self.end_user)


def in_memory_of(tenant: str, end_user: str) -> str:
    """The name under which exact answers are kept: the tenant's, or that of one of its end users."""
    return f"{tenant}/{end_user}" if end_user else tenant
