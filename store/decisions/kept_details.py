"""What else is content of a request beside its conversation and answer, as it is kept with them: screened, cut, deflated.

All of it is what a client or an engine wrote. Examples that were sent along are not in it: their texts are in the bank.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_DEFLATE_LEVEL = 1


@dataclass(frozen=True, slots=True)
class KeptJson:
    """A body as it was read; what is private in it is replaced, and what is too long cut."""

    value: Any
    """What the JSON says; a text where it was none."""
    left_out_characters: int = 0

    @property
    def cut(self) -> bool:
        """Whether something of it is left out."""
        return self.left_out_characters > 0


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool in an answer."""

    name: str
    arguments: str
    """As the engine wrote them: JSON, most of the time."""
    id: str = ""
    choice: int = 0
    """In which of the answer's choices."""


@dataclass(frozen=True, slots=True)
class KeptDetails:
    """See the module."""

    user: str = ""
    """The end user as the client names them."""
    session: str = ""
    """The conversation as the client names it; empty where it does not."""
    error: str = ""
    """What the client was told of its failure, or what broke its answer off."""
    said: tuple[str, ...] = ()
    """What each of those said that were asked and failed, in the order of the row's trail; empty where nothing is known."""
    came: KeptJson | None = None
    """The body as it came."""
    conversation: str = ""
    """The field of the body that is the kept messages as they are, and is null in it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the body that the engine got instead, by name; null: it got none. Not those that hold the conversation."""
    back: KeptJson | None = None
    """The body of the answer: of a stream the object that it amounts to."""
    answer_in: bool = False
    """The first choice's text is the kept answer, and is null in it."""
    tools_called: tuple[ToolCalled, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    """Of each choice."""
    answer_left_out: int = 0
    """Characters of the answer that are not kept."""
    replaced: tuple[str, ...] = ()
    """Kinds of private data of which something was replaced."""

    def packed(self) -> bytes:
        """For a column."""
        said = {
            name: value
            for name in _FIELDS
            if (value := getattr(self, name)) not in ("", (), 0, False, None) and value != {}
        }
        return zlib.compress(orjson.dumps(said), _DEFLATE_LEVEL)

    @classmethod
    def unpacked(cls, column: bytes | None) -> KeptDetails:
        """What `packed` gave; nothing for None."""
        if column is None:
            return NOTHING
        said: dict[str, Any] = orjson.loads(zlib.decompress(column))
        for name in ("came", "back"):
            if said.get(name) is not None:
                said[name] = KeptJson(**said[name])
        for name in ("said", "finish_reasons", "replaced"):
            said[name] = tuple(said.get(name, ()))
        said["tools_called"] = tuple(ToolCalled(**call) for call in said.get("tools_called", ()))
        return cls(**{name: value for name, value in said.items() if name in _FIELDS})


_FIELDS = tuple(KeptDetails.__dataclass_fields__)
NOTHING = KeptDetails()
"""Nothing is kept."""
