"""Who asked for a step, and how: everything of the client's request that its engine is to see, beside the body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.headers import CREDENTIALS, key_parameters, without_credentials, without_key_parameters
from engines.placement import Placement
from gateway.journey import arrival
from router.asked import Admitted, Arrival, Asked, Controls

_NOT_OF_A_STEP = ("Content-Length", "Content-Encoding", "Content-Type", "Idempotency-Key", "Accept")
_PATH = "/chat/completions"


class Names(NamedTuple):
    """What else is known of who asks: see router.asked.Arrival. What they may reach is looked up when a step is asked."""

    key_name: str = ""
    tenant_name: str = ""
    partition: str = ""
    user: str = ""


NAMELESS = Names()


@dataclass(frozen=True, slots=True)
class Caller:
    """The client behind a step. Never changed in place."""

    tenant: str = "default"
    key_id: str | None = None
    anonymous: bool = False
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    """End-to-end headers, as `Asked.headers`."""
    controls: Controls = field(default_factory=Controls)
    contributor: str = ""
    end_user: str = ""
    target: str = _PATH
    """Below the engine's base URL; the client's query (an API version, say) is kept."""
    path: str = _PATH
    """As the log of requests names it."""
    max_kept_bytes: int = 2**20
    credential_lost: bool = False
    """It came with a credential for an upstream, which ended with the process that it came to."""
    credential_headers: tuple[str, ...] = ()
    """Further headers that hold one (`listen.tenant_headers`)."""
    names: Names = NAMELESS

    @classmethod
    def behind(cls, asked: Asked, credential_headers: tuple[str, ...] = ()) -> Caller:
        """The client of a request."""
        headers = asked.headers.copy()
        for name in _NOT_OF_A_STEP:
            headers.popall(name, None)
        headers["Content-Type"] = "application/json"
        headers["Accept-Encoding"] = "identity"
        query = asked.target.partition("?")[2]
        return cls(
            asked.arrival.tenant,
            asked.arrival.key_id,
            asked.arrival.anonymous,
            headers,
            asked.controls,
            asked.contributor,
            asked.end_user,
            f"{_PATH}?{query}" if query else _PATH,
            asked.arrival.path,
            asked.max_kept_bytes,
            credential_headers=credential_headers,
            names=_names(asked.arrival),
        )

    @property
    def holds_credential(self) -> bool:
        """Whether its headers or its query hold the client's own credential for an upstream."""
        names = (*CREDENTIALS, *self.credential_headers)
        return any(name in self.headers for name in names) or bool(key_parameters(self.target))

    def kept(self) -> dict[str, Any]:
        """As JSON, without any credential: what another process needs to ask in its name."""
        return {
            "key_id": self.key_id,
            "anonymous": self.anonymous,
            "headers": list(without_credentials(self.headers, self.credential_headers).items()),
            "controls": asdict(self.controls),
            "contributor": self.contributor,
            "end_user": self.end_user,
            "target": without_key_parameters(self.target),
            "path": self.path,
            "max_kept_bytes": self.max_kept_bytes,
            "credential_lost": self.credential_lost or self.holds_credential,
            "names": self.names._asdict(),
        }

    @classmethod
    def read(cls, tenant: str, kept: Mapping[str, Any]) -> Caller:
        """Of what `kept` gave."""
        named = {
            **kept,
            "headers": CIMultiDict(map(tuple, kept["headers"])),
            "controls": Controls(**kept["controls"]),
            "names": _names_read(kept.get("names") or {}),
        }
        return cls(tenant=tenant, **named)

    def stored_nowhere(self) -> Caller:
        """The same, of whose requests nothing is kept."""
        return (
            self if self.controls.no_store else replace(self, controls=replace(self.controls, no_store=True))
        )

    @property
    def no_store(self) -> bool:
        """Whether nothing of its requests may be stored."""
        return self.controls.no_store

    def arrival(self) -> Arrival:
        """A request of this client for a chat completion, arriving now; it is to be admitted."""
        return arrival("POST", self.path).of(
            Arrival, "chat", self.tenant, self.key_id, anonymous=self.anonymous, **self.names._asdict()
        )

    def asked(self, admitted: Admitted, chat: ChatRequest, placement: Placement) -> Asked:
        """The request of a step with this chat, once it was let in."""
        return Asked(
            admitted,
            self.target,
            self.headers,
            chat,
            self.controls,
            self.max_kept_bytes,
            self.contributor,
            self.end_user,
            placement,
        )


def _names(arrival: Arrival) -> Names:
    return Names(*(getattr(arrival, name) for name in Names._fields))


def _names_read(kept: Mapping[str, Any]) -> Names:
    return Names(**{name: kept[name] for name in Names._fields if name in kept})
