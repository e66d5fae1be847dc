"""Settings of everything that learns: choosing examples, choosing engines, judging, feedback, and the quality floor."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from understudy.settings.group import Settings


class ExampleChoiceSettings(Settings):
    """Which of the nearest examples are sent along, how many, in what order."""

    max_examples: int = Field(8, ge=0, le=8, description="Most examples sent along; 0 sends none.")
    max_example_tokens: int = Field(
        2000, ge=1, description="Token budget of all examples together (estimated)."
    )
    min_gain: float = Field(
        0.003,
        ge=0,
        le=1,
        description="An example must raise the expected quality by this much, or stays out.",
    )
    min_promise: float = Field(
        0.0, ge=0, le=1, description="All examples together must raise it by this much, or none is sent."
    )
    distraction: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Share of the quality that an example takes from another that holds what is needed.",
    )
    unfamiliar_min_help: float = Field(
        0.03,
        ge=0,
        le=1,
        description="The best must mend this share of errors where no example mentions what the request names.",
    )
    gain_per_ktok: float = Field(
        0.0, ge=0, description="And by this much per thousand tokens it adds: the price of a longer prompt."
    )
    redundancy: float = Field(
        0.9, ge=0, le=1, description="How much being like an example already chosen costs (MMR)."
    )
    order: Literal["helpful_last", "stable"] = Field(
        "helpful_last",
        description="Most helpful next to the question, or always the same order, for engines that cache prefixes.",
    )
    candidates: int = Field(20, ge=1, le=200, description="Nearest examples that are scored.")
    floor: float = Field(0.3, ge=-1, le=1, description="Cosine below which an example is not even scored.")
    scorer_deadline_ms: float = Field(
        10, gt=0, description="A request waits no longer for scores; the nearest examples are sent instead."
    )
    adapt_count: bool = Field(True, description="Learn how many examples pay, per engine.")
    label_share: float = Field(
        0.05,
        ge=0,
        le=0.5,
        description="Of offloaded requests, this share drops or swaps an example to learn.",
    )


class ExplorationSettings(Settings):
    """Trying what does not look best, because it might be."""

    epsilon: float = Field(
        0.02, ge=0, le=0.5, description="Least probability that all actions together share."
    )
    gamma: float = Field(10, gt=0, description="SquareCB: the higher, the less is tried that looks worse.")
    key_share: float = Field(
        0.1, ge=0, le=1, description="Most of a key's requests that may be used to explore, over an hour."
    )
    opted_out_keys: tuple[str, ...] = Field((), description="Ids of keys on whose requests nothing is tried.")


class LoadSettings(Settings):
    """Leaning to cheap engines under load."""

    threshold: float = Field(
        0.7, ge=0, description="Utilisation of an engine up to which load changes nothing (1: full)."
    )
    strength: float = Field(
        0.5, ge=0, description="Reward an engine loses per unit of utilisation above it; 0 is blind to load."
    )


class QualityFloorSettings(Settings):
    """No more than so much worse than always-large."""

    max_loss: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Quality lost against always-large, such as 0.02; null for no floor. Needs `judging`.",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Of the bound, at all times together.")


class InContextSettings(Settings):
    """The policy that learns: examples by expected help, engines by expected reward."""

    preference: float = Field(
        0.5, ge=0, le=1, description="The dial: 0 is cheapest, 1 is best; a request may send its own."
    )
    key_preferences: dict[str, float] = Field({}, description="Key id to its own dial.")
    outcomes_needed: int = Field(
        200, ge=1, description="Outcomes a tenant needs before its own router takes over from few_shot."
    )
    examples: ExampleChoiceSettings = Field(ExampleChoiceSettings(), description="Choosing examples.")
    exploration: ExplorationSettings = Field(ExplorationSettings(), description="Learning by trying.")
    load: LoadSettings = Field(LoadSettings(), description="Leaning to cheap engines under load.")
    quality_floor: QualityFloorSettings = Field(QualityFloorSettings(), description="A promise on quality.")

    @field_validator("key_preferences")
    @classmethod
    def _are_dials(cls, preferences: dict[str, float]) -> dict[str, float]:
        for key, preference in preferences.items():
            if not 0 <= preference <= 1:
                raise ValueError(f"the dial of {key!r} is {preference}; it must be 0 (cheapest) to 1 (best)")
        return preferences


class LearningSettings(Settings):
    """The learner: a process beside the workers that turns outcomes into new versions of what is learnt."""

    enabled: bool = Field(True, description="Off: nothing is trained; what is there stays in use.")
    every_s: float = Field(10, gt=0, description="How often new outcomes are looked for.")
    min_new_outcomes: int = Field(20, ge=1, description="Fewer new outcomes than this wait for more.")
    half_life_h: float = Field(
        24 * 14, gt=0, description="An outcome this old counts half: how fast the past is forgotten."
    )
    max_outcomes: int = Field(20_000, ge=100, description="Latest outcomes trained on, per tenant and model.")
    train_scorer: bool = Field(
        True, description="Train the scorer, too, where the train extra is installed (torch)."
    )
    scorer_min_outcomes: int = Field(300, ge=50, description="Outcomes with examples before it is trained.")
    versions_kept: int = Field(20, ge=2, description="Versions of each artifact that are kept.")


class JudgingSettings(Settings):
    """Judging a sample of answers by an engine (see docs/explanation/judging.md)."""

    engine: str = Field(description="Name of the engine that judges.")
    share_offloaded: float = Field(
        0.05, ge=0, le=1, description="Of requests another engine than the reference answered."
    )
    share_reference: float = Field(
        0.02, ge=0, le=1, description="Of requests the reference answered: would a smaller one have done?"
    )
    others: int = Field(
        1, ge=0, le=4, description="Further ways of answering asked and judged beside the served one."
    )
    samples: int = Field(
        2, ge=1, le=8, description="Votes per order; both orders are always asked. One vote is noisy."
    )
    tie: float = Field(0.3, ge=0, le=3, description="Scores no further from 0 than this are a tie.")
    max_usd_per_day: float = Field(5, ge=0, description="Nothing is judged beyond this.")
    max_usd_per_hour: float | None = Field(
        None, ge=0, description="The same within an hour; null for no cap."
    )
    max_in_flight: int = Field(4, ge=1, le=64, description="Judgements at once, per worker.")
    max_queued: int = Field(200, ge=1, description="Requests that may wait to be judged, per worker.")
    pause_above: float = Field(
        0.8, gt=0, description="Utilisation of an engine above which it is not asked for judgements."
    )
    max_tokens: int = Field(1024, ge=16, description="Longest answer asked for comparison, in tokens.")
    verdict_tokens: int = Field(
        300, ge=16, description="Longest verdict, in tokens; a reasoning judge needs more."
    )
    judge_fields: dict[str, Any] = Field(
        {}, description="Further fields of the judge's requests, such as a temperature."
    )
    opted_out_keys: tuple[str, ...] = Field((), description="Ids of keys whose requests are never judged.")

    @model_validator(mode="after")
    def _judges_something(self) -> JudgingSettings:
        if self.share_offloaded == 0 and self.share_reference == 0:
            raise ValueError("share_offloaded and share_reference are both 0: leave `judging` out instead")
        return self


class FeedbackSettings(Settings):
    """`POST /v1/feedback`."""

    enabled: bool = Field(True, description="Off answers 404.")
    window_h: float = Field(24 * 7, gt=0, description="How long after its request feedback is taken.")
    per_minute: int = Field(600, ge=1, description="Per key; more gets 429.")
    max_kib: float = Field(256, gt=0, description="Largest body, in KiB.")
    survive_power_cut: bool = Field(
        True,
        description="Force feedback to the disk before it is acknowledged; a killed process loses none anyway.",
    )
    regenerated: bool = Field(
        False,
        description="Take the same question within a minute, memory forbidden, for a weak complaint.",
    )
