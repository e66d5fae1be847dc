"""A setting that is a cron expression."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator


def _checked(expression: str) -> str:
    from cronsim import CronSim, CronSimError

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


Cron = Annotated[str, AfterValidator(_checked)]
"""Five fields, as in crontab(5)."""
