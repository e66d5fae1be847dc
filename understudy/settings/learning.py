"""Settings of learning from outcomes: training, judging a sample, feedback."""

from __future__ import annotations

from pydantic import Field

from understudy.settings.group import Settings


class LearningAdvanced(Settings):
    """Less common settings of the learner."""

    every_s: float = Field(10, gt=0, description="Interval at which new outcomes are looked for.")
    min_new_outcomes: int = Field(20, ge=1, description="New outcomes needed for another round of training.")
    starting_requests: int = Field(
        200,
        ge=0,
        description="What comparing answers in the background may cost before anything is saved: the price of so many of a "
        "tenant's requests.",
    )


class LearningSettings(Settings):
    """The learner: a process beside the workers that turns outcomes into new versions of what is learnt."""

    enabled: bool = Field(True, description="Off: nothing is trained; what is there stays in use.")
    spend_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Most of what offload has saved lately that comparing answers in the background may cost.",
    )
    quality_alarm: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Mean quality of offloaded answers, by judge or feedback, below which overview, metrics and webhooks "
        "warn. Above 1 - max_loss it warns of what a model's max_loss allows.",
    )
    advanced: LearningAdvanced = Field(LearningAdvanced(), description="Less common settings.")


class JudgingAdvanced(Settings):
    """Less common settings of judging."""

    share_reference: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Share judged of requests the reference answered: would a smaller one have done?",
    )
    others: int = Field(
        1, ge=0, le=4, description="Further ways of answering asked and judged beside the served one."
    )
    samples: int = Field(
        2, ge=1, le=8, description="Votes per order; both orders are always asked. One vote is noisy."
    )
    max_in_flight: int = Field(4, ge=1, le=64, description="Judgements at once, per worker.")
    verdict_tokens: int = Field(
        300, ge=16, description="Longest verdict, in tokens; a reasoning judge needs more."
    )
    opted_out_keys: tuple[str, ...] = Field(
        (), description="Keys, by their name in `keys` or their id, whose requests are never judged."
    )


class JudgingSettings(Settings):
    """An engine that judges, and a sample beside what the proof asks for (see docs/how-to/set-up-judging.md)."""

    engine: str = Field(description="Name of the engine that judges.")
    share_offloaded: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Share judged of requests that another engine than the reference answered.",
    )
    max_usd_per_day: float = Field(5, ge=0, description="Most US dollars spent on it within a day.")
    advanced: JudgingAdvanced = Field(JudgingAdvanced(), description="Less common settings.")


class FeedbackAdvanced(Settings):
    """Less common settings of feedback."""

    per_minute: int = Field(600, ge=1, description="Feedback taken per key and minute; more gets 429.")
    regenerated: bool = Field(
        False,
        description="Count the same question within a minute, memory forbidden, as a weak complaint.",
    )


class FeedbackSettings(Settings):
    """`POST /v1/feedback`."""

    enabled: bool = Field(True, description="Off answers 404.")
    advanced: FeedbackAdvanced = Field(FeedbackAdvanced(), description="Less common settings.")
