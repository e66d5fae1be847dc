"""Settings of replay: when it runs, what it may cost, which engines do the work, which prefixes stay warm."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from understudy.settings.cron import Cron
from understudy.settings.group import Settings


def time_zone(name: str) -> tzinfo:
    """The time zone called `name`. Raises ValueError, saying what would be right."""
    # A slim system without a zone database knows UTC all the same.
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(
            f"{name!r} is no time zone known here; take a name such as UTC or Europe/Rome (where the system has "
            "no zones, install the package tzdata)"
        ) from error


class KvPlanSettings(Settings):
    """Which examples stand first in prompts and stay in engines' prefix caches (see docs/explanation/engines.md)."""

    engines: tuple[str, ...] = Field(
        (), description="Engines with a prefix cache whose hot examples come first."
    )
    kept_examples: int = Field(
        32, ge=1, description="Examples per engine: those it is sent most, uses decayed by 0.9 per hour."
    )
    every_s: float = Field(600, gt=0, description="How often the plan is made anew, in seconds.")
    warm: bool = Field(
        True, description="Send them with max_tokens=1 while traffic is low, so that they are cached."
    )


class ReplayAdvanced(Settings):
    """Less common settings of replay."""

    calm_s: float = Field(
        10, ge=0, description="How long it must have been quiet before replay goes on after a pause."
    )
    max_run_tokens: int = Field(
        1_000_000, ge=0, description="Most tokens one run may spend, prompts and answers together."
    )
    engine: str | None = Field(
        None, description="Engine that answers anew; null: the reference of the model an example came by."
    )
    generator: str | None = Field(
        None, description="Engine that writes new questions; null: the model's reference engine."
    )
    expand: bool = Field(
        False,
        description="Also write new examples where few are near; for $0.49 that raised quality by .003, distilling by .072.",
    )
    kv_plan: KvPlanSettings = Field(KvPlanSettings(), description="Prefixes that engines keep warm.")


class ReplaySettings(Settings):
    """Replay: off-peak, the reference engine answers again what matters most, and the best answer stays. Needs memory."""

    enabled: bool = Field(
        False, description="Run replay by itself; `understudy learn replay` works either way."
    )
    cron: Cron | None = Field(
        "0 2 * * *",
        description="When a run begins, as in crontab(5); null: daily, in the hour that is usually quietest.",
    )
    time_zone: str = Field("UTC", description="Of the cron expression and of usual weeks, e.g. Europe/Rome.")
    max_run_usd: float = Field(1, ge=0, description="Most US dollars one run may spend.")
    judge: str | None = Field(None, description="Engine that compares answers; null: judging.engine.")
    advanced: ReplayAdvanced = Field(ReplayAdvanced(), description="Less common settings.")

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, zone: str) -> str:
        time_zone(zone)
        return zone
