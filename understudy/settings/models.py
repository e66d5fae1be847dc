"""Settings of a model name that clients ask for: who may answer it, by which policy, with which examples."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from understudy.settings.group import Settings
from understudy.settings.tasks import TaskSettings, check_names

_MOST_ENGINES = 8
_FEWEST_OF_A_CASCADE = 3


class FewShotSettings(Settings):
    """The few_shot rule: enough similar past requests make a request familiar."""

    theta: float = Field(
        0.8, ge=-1, le=1, description="Cosine similarity from which a past request counts as near."
    )
    m: int = Field(
        3, ge=1, le=50, description="Near neighbours needed to hand the request to the small engine."
    )
    max_examples: int = Field(5, ge=1, le=50, description="Most examples sent along.")
    same_names: bool = Field(
        False,
        description="Whether neighbours must name the same things: right for questions about facts, wrong for tasks.",
    )


class InContextSettings(Settings):
    """The policy that learns: examples by expected help, engines by expected reward."""

    preference: float = Field(
        0.5, ge=0, le=1, description="The preference: 0 is cheapest, 1 is best; a request may send its own."
    )
    max_examples: int = Field(8, ge=0, le=8, description="Most examples sent along; 0 sends none.")


class ModelAdvanced(Settings):
    """Less common settings of a model name."""

    find_tasks: bool | None = Field(
        None,
        description="Whether requests become a task by themselves, whose student is proven before it answers: those whose "
        "response_format has one enum, and those under instructions to which nearly all answers are few labels; null: where "
        "policy is not fixed.",
    )
    continue_broken: bool = Field(
        True, description="Whether a stream that breaks off is carried on by another engine that can."
    )
    with_tools: Literal["off", "route", "examples"] | None = Field(
        None,
        description="Requests that carry tools: off sends them to the reference; route lets outcomes choose among the "
        "engines, without examples; examples treats them as any other; null: route where engines need proof, else off.",
    )
    max_example_tokens: int = Field(
        2000, ge=1, description="Token budget of all examples together (estimated)."
    )
    example_order: Literal["helpful_last", "stable"] = Field(
        "helpful_last",
        description="Most helpful next to the question, or always the same order, for engines that cache prefixes.",
    )
    key_preferences: dict[str, float] = Field(
        {}, description="Key (its name in `keys`, or its id) to its own in_context.preference."
    )
    outcomes_needed: int = Field(
        200,
        ge=1,
        description="Evidence a tenant needs before what was learnt takes over from the few_shot rule: so many outcomes "
        "where nothing is clear, fewer where they agree.",
    )
    scorer_deadline_ms: float = Field(
        10, gt=0, description="Longest wait for scores; after it the nearest examples are sent."
    )
    epsilon: float = Field(
        0.02,
        ge=0,
        le=0.5,
        description="Exploration: least probability that actions which may be the best share.",
    )
    key_share: float = Field(
        0.1, ge=0, le=1, description="Exploration: most of a key's requests used for it, over an hour."
    )
    load_strength: float = Field(
        0.5, ge=0, description="Reward an engine loses per unit of utilisation above it; 0 ignores load."
    )
    cascade_wait_s: float = Field(
        10, gt=0, description="Longest wait for a cascade's small engines; after it the large one is asked."
    )
    opted_out_keys: tuple[str, ...] = Field(
        (), description="Keys, by their name in `keys` or their id, whose requests are never used to explore."
    )

    @field_validator("with_tools", mode="before")
    @classmethod
    def _was_a_boolean(cls, value: object) -> object:
        # `true` was what `examples` is, and `false` what `off` is.
        return {False: "off", True: "examples"}[value] if isinstance(value, bool) else value

    @field_validator("key_preferences")
    @classmethod
    def _are_dials(cls, preferences: dict[str, float]) -> dict[str, float]:
        for key, preference in preferences.items():
            if not 0 <= preference <= 1:
                raise ValueError(
                    f"the preference of {key!r} is {preference}; it must be 0 (cheapest) to 1 (best)"
                )
        return preferences


class ModelSettings(Settings):
    """A model name clients ask for, and who may answer it."""

    engines: tuple[str, ...] = Field(
        min_length=1, description="Engines from small to large; the last is the reference."
    )
    cascade: tuple[str, ...] = Field(
        (),
        description="Small engines that are asked at the same time, then the large one: where all small ones give the same "
        "short answer, the first one's may be served once that is proven. engines may be left out beside it.",
    )
    policy: Literal["in_context", "few_shot", "fixed"] = Field(
        "fixed",
        description="in_context learns; few_shot is the rule it starts with; fixed: always the last engine.",
    )
    proof: Literal["on", "floor", "off"] = Field(
        "on",
        description="How max_loss is kept: on offloads only where comparisons proved a small engine; floor limits what "
        "in_context offloads by what judging shows; off does neither.",
    )
    max_loss: float = Field(
        0.05, gt=0, lt=1, description="Most quality lost against always asking the reference."
    )
    few_shot: FewShotSettings = Field(FewShotSettings(), description="The few_shot rule.")
    in_context: InContextSettings = Field(InContextSettings(), description="The in_context policy.")
    remember: bool = Field(True, description="Whether the reference engine's answers become examples.")
    larger_context: str | None = Field(
        None, description="Engine that gets a request too long for the chosen one."
    )
    stand_ins: tuple[str, ...] | None = Field(
        None,
        description="Those of its engines that may answer while another is down, in this order, proven or not; null: all of "
        "them, but with proof on none that needs proof. Larger and proven engines always may.",
    )
    tasks: dict[str, TaskSettings] = Field(
        {},
        description="Tasks by name, such as `intent: {labels: [refund, order], system: classify}`: a student learns to "
        "answer them.",
    )
    advanced: ModelAdvanced = Field(ModelAdvanced(), description="Less common settings.")

    @model_validator(mode="before")
    @classmethod
    def _ends_of_the_cascade(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("cascade") and "engines" not in data:
            cascade = tuple(data["cascade"])
            return {**data, "engines": (cascade[0], cascade[-1])}
        return data

    @field_validator("engines", "cascade")
    @classmethod
    def _each_once(cls, engines: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(engines)) < len(engines):
            raise ValueError(f"names an engine twice: {', '.join(engines)}; each is asked once")
        return engines

    @field_validator("tasks")
    @classmethod
    def _have_names(cls, tasks: dict[str, TaskSettings]) -> dict[str, TaskSettings]:
        return check_names(tasks)

    @field_validator("proof", mode="before")
    @classmethod
    def _as_yaml_reads_it(cls, proof: object) -> object:
        # YAML takes a bare on and off for true and false.
        return {True: "on", False: "off"}.get(proof, proof) if isinstance(proof, bool) else proof

    @model_validator(mode="after")
    def _can_work(self) -> ModelSettings:
        if strangers := sorted(set(self.stand_ins or ()) - set(self.engines)):
            raise ValueError(
                f"stand_ins names {', '.join(strangers)}; each must be one of its engines: {', '.join(self.engines)}"
            )
        if self.policy != "fixed" and len(self.engines) < 2:
            raise ValueError(f"policy {self.policy} needs two engines, small then large")
        if self.policy == "in_context" and len(self.engines) > _MOST_ENGINES:
            raise ValueError(
                f"it has {len(self.engines)} engines; in_context chooses among {_MOST_ENGINES} at most"
            )
        if (self.policy, self.proof) == ("few_shot", "floor"):
            raise ValueError("proof: floor needs policy in_context; write on or off")
        if self.cascade:
            self._cascade_can_work()
        if self.tasks and not self.remember:
            raise ValueError(
                "tasks names tasks, but remember is false: a student is trained on the reference's answers; leave "
                "remember on, or take the tasks away"
            )
        return self

    def _cascade_can_work(self) -> None:
        listed = ", ".join(self.cascade)
        if len(self.cascade) < _FEWEST_OF_A_CASCADE:
            raise ValueError(f"cascade is {listed}; it needs two small engines, then the large one")
        if self.cascade[0] not in self.engines[:-1] or self.cascade[-1] != self.engines[-1]:
            raise ValueError(
                f"cascade is {listed}, but engines is {', '.join(self.engines)}: its first must be one of the small "
                "engines, and both must end with the same large one"
            )
        if not self.proves:
            raise ValueError(
                f"cascade is {listed}, but policy is {self.policy} and proof {self.proof}: agreement serves only where "
                "it is proven; set policy to in_context or few_shot, and proof to on"
            )

    @property
    def agreement(self) -> str:
        """The name among the engines of what answers where the cascade's small ones agree; empty without a cascade."""
        return "+".join(self.cascade[:-1])

    @property
    def ways(self) -> tuple[str, ...]:
        """The engines from small to large, the cascade among them before the last."""
        return (*self.engines[:-1], self.agreement, self.engines[-1]) if self.cascade else self.engines

    @property
    def with_tools(self) -> Literal["off", "route", "examples"]:
        """What becomes of requests that carry tools: unproven engines get none unless the operator says so."""
        return self.advanced.with_tools or ("route" if self.proves else "off")

    @property
    def find_tasks(self) -> bool:
        """Whether tasks are found without being declared: fixed says that the reference always answers."""
        said = self.advanced.find_tasks
        return self.policy != "fixed" if said is None else said

    @property
    def may_have_tasks(self) -> bool:
        """Whether requests may belong to a task: of the configuration, by their own form or header, or of a proposal."""
        return self.remember

    @property
    def proves(self) -> bool:
        """Whether small engines need proof before they answer."""
        return self.proof == "on" and self.policy != "fixed"
