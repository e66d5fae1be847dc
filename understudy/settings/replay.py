"""Settings of replay: when it runs, what it may cost, which engines do the work, which prefixes stay warm."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

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


class OffPeakSettings(Settings):
    """Which load counts as low (see docs/explanation/off-peak.md)."""

    weeks: int = Field(4, ge=1, le=26, description="Weeks of requests from which a usual week is learnt.")
    quiet_share: float = Field(
        0.25, gt=0, le=1, description="Share of a usual week's hours that counts as quiet: the quietest ones."
    )
    min_in_flight: int = Field(
        2, ge=0, description="Requests in flight that never pause replay, whatever was learnt."
    )
    max_in_flight: int | None = Field(
        None,
        ge=0,
        description="Requests in flight that always pause replay; null leaves it to what is learnt.",
    )
    calm_s: float = Field(
        10, ge=0, description="How long traffic must have been low before replay goes on after a pause."
    )


class ReplayBudgetSettings(Settings):
    """What one run may spend, at most; it ends with the first of these that is used up."""

    usd: float = Field(1, ge=0, description="US dollars.")
    tokens: int = Field(1_000_000, ge=0, description="Tokens, prompts and answers together.")
    minutes: float = Field(
        120, gt=0, description="Minutes of engines' time: its requests' latencies added up; pauses are free."
    )


class KvPlanSettings(Settings):
    """Which examples stand first in prompts and stay in engines' prefix caches (see docs/explanation/warm-prefixes.md)."""

    engines: tuple[str, ...] = Field(
        (), description="Engines with a prefix cache whose hot examples come first."
    )
    most: int = Field(
        32, ge=1, description="Examples per engine: those it is sent most, uses decayed by 0.9 per hour."
    )
    every_s: float = Field(600, gt=0, description="How often the plan is made anew, in seconds.")
    warm: bool = Field(
        True, description="Send them with max_tokens=1 while traffic is low, so that they are cached."
    )


class ReplaySettings(Settings):
    """Replay: off-peak, the reference engine answers again what matters most, and the best answer stays. Needs memory."""

    enabled: bool = Field(False, description="Run replay by itself; `understudy replay` works either way.")
    cron: str | None = Field(
        "0 2 * * *",
        description="When a run begins, as in crontab(5); null: daily, in the hour that is usually quietest.",
    )
    time_zone: str = Field("UTC", description="Of the cron expression and of usual weeks, e.g. Europe/Rome.")
    window_h: float = Field(
        6,
        gt=0,
        le=24,
        description="How long after its time a run may begin or go on; then the next is waited for.",
    )
    off_peak: OffPeakSettings = Field(OffPeakSettings(), description="Which load counts as low.")
    budget: ReplayBudgetSettings = Field(ReplayBudgetSettings(), description="What one run may spend.")
    samples: int = Field(
        3, ge=1, le=16, description="Answers asked of the reference engine per example; the best stays."
    )
    temperature: float = Field(0.8, ge=0, le=2, description="Sampling temperature of those answers.")
    judge: str | None = Field(None, description="Engine that compares answers; null: judging.engine.")
    generator: str | None = Field(
        None, description="Engine that writes new questions; null: the model's reference engine."
    )
    engine: str | None = Field(
        None, description="Engine that answers anew; null: the reference of the model an example came by."
    )
    votes: int = Field(2, ge=1, le=8, description="Verdicts per order of each comparison.")
    max_tokens: int = Field(1024, ge=16, description="Longest answer it asks for, in tokens.")
    in_flight: int = Field(4, ge=1, le=64, description="Examples worked on at once.")
    again_after_h: float = Field(
        168, ge=0, description="How long an example that was replayed is left alone."
    )
    most_steps: int = Field(2000, ge=1, description="Most examples one run takes up.")
    expand: bool = Field(
        False,
        description="Also write new examples where few are near; for $0.49 that raised quality by .003, distilling by .072.",
    )
    kv_plan: KvPlanSettings = Field(KvPlanSettings(), description="Prefixes that engines keep cached.")

    @field_validator("time_zone")
    @classmethod
    def _zone_exists(cls, zone: str) -> str:
        time_zone(zone)
        return zone

    @field_validator("cron")
    @classmethod
    def _is_a_cron_expression(cls, expression: str | None) -> str | None:
        from cronsim import CronSim, CronSimError

        if expression is None:
            return None
        remedy = "five fields: minute, hour, day of month, month, day of week, such as '0 2 * * *'"
        if len(expression.split()) != 5:
            raise ValueError(f"{expression!r} is no cron expression; it takes {remedy}")
        try:
            next(CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            raise ValueError(f"{expression!r} is no cron expression ({error}); it takes {remedy}") from error
        except StopIteration as error:
            raise ValueError(f"{expression!r} never comes; it takes {remedy}") from error
        return expression
