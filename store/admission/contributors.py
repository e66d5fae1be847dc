"""How much one contributor may put into a bank that others read too, and from when on others may read it.

Pure functions over counts that somebody else keeps. A contributor is an API key. Who is alone in a tenant can harm nobody
but himself: nothing here applies to him.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Contributor:
    """What is known of a pair's contributor and of the bank it is going to, at this moment."""

    examples: int
    """Live examples of this contributor in the tenant's bank."""
    last_hour: int
    """Of those, admitted within the last hour."""
    first_seen_s: float
    """Seconds since the epoch of this contributor's first example; of now when there is none."""
    bank_first_seen_s: float
    """The same of anybody's first example in this bank; of now when there is none."""
    others: int
    """Other contributors with live examples in this bank."""
    judged_good: int = 0
    """Examples of this contributor that feedback or a judge found good."""
    judged_bad: int = 0
    """The same, found bad."""


@dataclass(frozen=True, slots=True)
class ContributorLimits:
    """What one contributor among several may do."""

    max_per_hour: int | None
    """Examples admitted within an hour; None for no cap."""
    quarantine_h: float
    """For how long a new contributor's examples are kept but not served to others; 0 for none."""
    most_examples: int = 20_000
    """Live examples in one bank."""
    trusted_after: int = 5
    """So many examples judged good, and none bad, end the quarantine early."""


def refusal(contributor: Contributor, limits: ContributorLimits) -> str | None:
    """`contributor_cap`, `contributor_rate`, or None: there is room."""
    if contributor.others == 0:
        return None
    if contributor.examples >= limits.most_examples:
        return "contributor_cap"
    if limits.max_per_hour is not None and contributor.last_hour >= limits.max_per_hour:
        return "contributor_rate"
    return None


def held_until_s(contributor: Contributor, limits: ContributorLimits, now_s: float) -> float | None:
    """Until when (seconds since the epoch) this contributor's examples must not be served to others; None: they may be.

    Founders, who came within one quarantine period of the bank's first example, are not new: there was nothing yet that
    they could have spoilt, and a team that starts together must not wait a day.
    """
    period_s = limits.quarantine_h * 3600
    end_s = contributor.first_seen_s + period_s
    founder = contributor.first_seen_s - contributor.bank_first_seen_s < period_s
    trusted = contributor.judged_good >= limits.trusted_after and contributor.judged_bad == 0
    if contributor.others == 0 or now_s >= end_s or founder or trusted:
        return None
    return end_s


def may_judge(contributor: Contributor, limits: ContributorLimits, now_s: float) -> bool:
    """Whether what this contributor says of answers counts for the examples of the bank, its own included.

    Not while it is new: its praise would end its own quarantine, or that of another newcomer; its blame would push out
    what others gave. Being alone makes nobody less new here: others may come, and its praise would still be there.
    """
    return held_until_s(replace(contributor, others=1), limits, now_s) is None
