"""What admission is told about a request and its answer, what it may be set to, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from store.admission.contributors import Contributor, ContributorLimits
from store.admission.cutting import EMBEDDED_CHARACTERS
from store.records import GOOD_QUALITY

Mode = Literal["refuse", "redact", "off"]
"""What becomes of a pair in which something was found."""
Origin = Literal["answer", "demonstration", "import"]
"""How a pair came here: an engine's answer to a client, a right answer that somebody gave, an operator's import."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and its answer, as the rules see them. Facts only: what they mean is said by AdmissionSettings."""

    offers_tools: bool
    """The request offers tools to the model."""
    plain_text: bool
    """Every message is words only: no images, audio, files or tool calls."""
    status: int
    complete: bool
    """The terminal event was seen, or the body had its full length."""
    opted_out: bool
    """By the request: `Cache-Control: no-store` or `store: false`."""
    from_reference: bool
    """The model's reference (large) engine answered, without examples of ours."""
    question: str
    answer: str
    finish_reason: str
    choices: int
    calls_tools: bool
    follow_up: bool = False
    """The question has turns before it, on which its answer depends."""
    key_opted_out: bool = False
    model_opted_out: bool = False
    origin: Origin = "answer"
    quality: float | None = None
    """What a judge thought of the answer on its own scale from 0 to 1; None: nobody judged."""
    contributor: Contributor | None = None
    """Counts of who brings it; None where no single contributor does (an operator's import)."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """By which rules pairs are admitted."""

    engines: frozenset[str]
    """Whose answers may become examples. `any` admits every engine's."""
    secrets: Mode
    private_data: Mode
    instructions: Literal["refuse", "off"]
    public: frozenset[str]
    """What is not private although it looks so: an organisation's own phone number, address or mail domain (`@acme.com`)."""
    contributors: ContributorLimits
    follow_ups: bool
    """Whether follow-ups may become examples. One that somebody gave as a right answer always may."""
    good_quality: float = GOOD_QUALITY
    """From which quality on an answer counts as judged good."""
    min_question_characters: int = 3
    min_answer_characters: int = 1
    max_characters: int = 8000
    """Of the question and of the answer, each."""
    embedded_characters: int = EMBEDDED_CHARACTERS
    """To how much of the question the embedded text is cut, after redaction."""
    twin_similarity: float = 0.94
    """Cosine similarity from which a neighbour that agrees makes a pair a near-duplicate."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The nearest example that the bank already has."""

    id: int
    similarity: float
    agrees: bool
    """Its answer says the same."""


TwinOf = Callable[[str], Twin | None]
"""From the (redacted) embedded text to its nearest neighbour. Asked last, and only about what is admitted so far."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Admitted, with the texts to keep, or refused, with the reason and no text at all."""

    reason: str | None
    """The rule that refused, one of REASONS; None: admitted."""
    detail: str = ""
    """Which kind was found (`EMAIL`, `override`); never what. Safe to log."""
    question: str = ""
    answer: str = ""
    embedded_text: str = ""
    """What the vector must stand for. A vector of the unredacted text would give it away."""
    redacted: tuple[str, ...] = ()
    """Kinds of what was replaced, one entry per different value."""
    held_until_s: float | None = None
    """Not to be served to other contributors before then, in seconds since the epoch."""
    twin: int | None = None
    """The near-duplicate to merge with (reason `near_duplicate`), or, when admitted, the neighbour it contradicts."""

    @property
    def admitted(self) -> bool:
        """Whether the pair may be kept."""
        return self.reason is None
