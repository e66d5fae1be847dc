"""Whatever is asked of them in whatever order, the database and memory remember the same, and write no variable twice."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from store import Store
from store.workflows.assets import NewText
from store.workflows.memory import MemoryRuns
from store.workflows.records import (
    Failure,
    Limits,
    NewRun,
    NewStep,
    NewVariable,
    Resolution,
    RunChange,
    RunEnd,
    StepProgress,
    Variable,
    VariableEnd,
)
from store.workflows.run_store import RunStore

TENANTS, APPS, OWNERS, NAMES = ("a1", "b2"), ("", "game"), ("w1", "w2"), ("x", "y", "z")
VALUES = ("", "text", ("a", "b"))
tenants, apps, owners = st.sampled_from(TENANTS), st.sampled_from(APPS), st.sampled_from(OWNERS)
values, places = st.sampled_from(VALUES), st.integers(0, 20)
LIMITS = Limits(max_runs=3, max_total_bytes=60)


class BothRemember(RuleBasedStateMachine):
    """Each example has a copy of an empty database."""

    empty: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.empty.parent))
        self.store = Store.open(shutil.copytree(self.empty, self.folder / "data"))
        self.both: tuple[RunStore, RunStore] = (self.store.runs, MemoryRuns())
        self.now_s = 1000.0
        self.runs: list[str] = []
        self.variables: list[str] = []
        self.written: dict[str, Variable] = {}
        self.places = [runs.place() for runs in self.both]

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def id(self, kind: str, known: list[str]) -> str:
        known.append(f"{kind}_{len(known)}")
        return known[-1]

    def run_at(self, place: int) -> str:
        return self.runs[place % len(self.runs)]

    def variable_at(self, place: int) -> str:
        return self.variables[place % len(self.variables)]

    def same(self, ask: Callable[[RunStore], Any]) -> Any:
        """What both said or raised, which must be the same."""
        said = []
        for runs in self.both:
            try:
                told = ask(runs)
                said.append(told.result(30) if hasattr(told, "result") else told)
            except Exception as error:
                said.append((type(error).__name__, getattr(error, "names", getattr(error, "run_ids", ()))))
        assert said[0] == said[1]
        return said[0]

    # ---- what may happen

    @initialize()
    def some_run(self) -> None:
        self.begun("a1", "game", "w1", "", False)

    @rule(tenant=tenants, app=apps, owner=owners, key=st.sampled_from(("", "k1")), hash=st.booleans())
    def begin(self, tenant: str, app: str, owner: str, key: str, hash: bool) -> None:
        self.begun(tenant, app, owner, key, hash)

    def begun(self, tenant: str, app: str, owner: str, key: str, hash: bool) -> None:
        run = NewRun(
            self.id("run", self.runs),
            tenant,
            self.now_s,
            owner,
            self.now_s + 5,
            app=app,
            keep_values_s=10.0,
            idempotency_key=key,
            idempotency_hash=b"1" if hash else b"2",
        )
        made = [NewVariable(self.id("var", self.variables), NAMES[n], app, f"s{n}") for n in range(2)]
        steps = [NewStep("s0", body=b"1234", writes={"x": made[0].id})]
        steps.append(NewStep("s1", reads={"x": made[0].id}, writes={"y": made[1].id}))
        self.same(lambda runs: runs.begin(run, steps, made, LIMITS))

    @precondition(lambda self: self.runs and self.variables)
    @rule(tenant=tenants, app=apps, place=places, name=st.sampled_from(NAMES), reads=places)
    def extend(self, tenant: str, app: str, place: int, name: str, reads: int) -> None:
        made = NewVariable(self.id("var", self.variables), name, app, f"t{len(self.variables)}")
        step = NewStep(made.step, reads={"in": self.variable_at(reads)}, writes={name: made.id})
        self.same(
            lambda runs: runs.extend(
                tenant, self.run_at(place), [step], [made], now_s=self.now_s, limits=LIMITS
            )
        )

    @rule(tenant=tenants, app=apps, name=st.sampled_from(NAMES), value=st.none() | values)
    def put(self, tenant: str, app: str, name: str, value: Any) -> None:
        made = NewVariable(self.id("var", self.variables), name, app, value=value)
        self.same(
            lambda runs: runs.put(tenant, made, now_s=self.now_s, keep_s=4, contributor="k/u", limits=LIMITS)
        )

    @precondition(lambda self: self.runs and self.variables)
    @rule(owner=owners, place=places, variable=places, value=values, fails=st.booleans())
    def value(self, owner: str, place: int, variable: int, value: Any, fails: bool) -> None:
        why = Failure("step_failed", "words", 500, ("x",), {"message": "words"})
        id = self.variable_at(variable)
        end = VariableEnd(id, "failed", failure=why) if fails else VariableEnd(id, "ready", value)
        progress = StepProgress("failed" if fails else "done", 1, failure=why if fails else None)
        change = RunChange(self.run_at(place), self.now_s, {"s0": progress}, [id], [end])
        self.same(lambda runs: runs.save(owner, [change]))

    @precondition(lambda self: self.variables)
    @rule(owner=owners, variable=places)
    def append(self, owner: str, variable: int) -> None:
        id = self.variable_at(variable)
        for tenant in TENANTS:
            text = self.same(lambda runs, tenant=tenant: runs.text(tenant, id))
            if text or tenant == TENANTS[-1]:
                self.same(lambda runs, text=text: runs.append(owner, id, len(text), "piece"))
                break

    @precondition(lambda self: self.runs)
    @rule(owner=owners, place=places, tenant=tenants, unknown=st.booleans(), value=st.none() | values)
    def unknown(self, owner: str, place: int, tenant: str, unknown: bool, value: Any) -> None:
        run, state = self.run_at(place), "unknown" if unknown else "running"
        progress = StepProgress(state, items=2)
        self.same(lambda runs: runs.save(owner, [RunChange(run, self.now_s, {"s1": progress})]))
        decided = Resolution("skip" if value is None else "value", value)
        self.same(lambda runs: runs.resolve(tenant, run, "s1", decided, now_s=self.now_s))

    @rule(
        tenant=tenants,
        texts=st.lists(st.sampled_from(NAMES)),
        identity=st.sampled_from(("e", "f")),
        contributor=st.sampled_from(("k/u", "k/v")),
    )
    def add_texts(self, tenant: str, texts: list[str], identity: str, contributor: str) -> None:
        made = [NewText(text, identity.encode() * 20) for text in texts]

        def add(runs: RunStore) -> list[tuple[str, str]]:
            runs.assets.add_texts(
                *(tenant, "c", made),
                identity=identity,
                now_s=self.now_s,
                contributor=contributor,
                limits=LIMITS,
            ).result(30)
            return [(each.text, each.identity) for each in runs.assets.texts(tenant, "c")]

        self.same(add)

    @rule(tenant=tenants, version=st.sampled_from(("v1", "v2", "v3")), remove=st.booleans())
    def put_workflow(self, tenant: str, version: str, remove: bool) -> None:
        if remove:
            self.same(lambda runs: runs.assets.remove_workflow(tenant, "qa"))
        self.same(
            lambda runs: runs.assets.put_workflow(
                tenant, "qa", version, b"12345", now_s=self.now_s, contributor="k/u", keep=2, limits=LIMITS
            )
        )
        self.same(lambda runs: runs.assets.workflows())

    @rule(owner=owners, place=places, state=st.sampled_from(("done", "failed", "cancelled")))
    def end(self, owner: str, place: int, state: Any) -> None:
        change = RunChange(self.run_at(place), self.now_s, end=RunEnd(state, self.now_s, None, ("s0",), 1))
        self.same(lambda runs: runs.save(owner, [change]))

    @rule(owner=owners)
    def renew(self, owner: str) -> None:
        self.same(lambda runs: runs.renew(owner, self.runs, self.now_s + 5))

    @rule(tenant=tenants, place=places)
    @precondition(lambda self: self.runs)
    def cancel(self, tenant: str, place: int) -> None:
        run = self.run_at(place)
        self.same(lambda runs: runs.request_cancel(tenant, run, now_s=self.now_s))

    @rule(tenant=tenants, variable=places, criteria=st.sampled_from(("latency", "ttft", "throughput")))
    @precondition(lambda self: self.variables)
    def get(self, tenant: str, variable: int, criteria: str) -> None:
        id = self.variable_at(variable)
        self.same(lambda runs: runs.note_get(tenant, id, criteria, stream=False, now_s=self.now_s))

    @rule(seconds=st.sampled_from((1.0, 4.0, 11.0)))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(tenant=tenants, place=places, which=st.sampled_from(("run", "app", "contributor", "tenant")))
    @precondition(lambda self: self.runs)
    def forget(self, tenant: str, place: int, which: str) -> None:
        of = tenant
        ask: dict[str, Callable[[RunStore], Any]] = {
            "run": lambda runs: runs.forget_run(of, self.run_at(place), now_s=self.now_s),
            "app": lambda runs: runs.forget_app(of, "game", now_s=self.now_s),
            "contributor": lambda runs: runs.forget_contributor(of, "k/u"),
            "tenant": lambda runs: runs.forget_tenant(of),
        }
        self.same(ask[which])
        self.written = {
            id: known for id, known in self.written.items() if self.found(known.tenant, id) is not None
        }

    @rule(owner=owners, limit=st.integers(1, 3), late=st.booleans())
    def adopt(self, owner: str, limit: int, late: bool) -> None:
        self.now_s += 6.0 if late else 0.0
        now_s = self.now_s
        self.same(lambda runs: runs.adopt(owner, now_s=now_s, until_s=now_s + 5, limit=limit))

    @rule(late=st.booleans())
    def expire(self, late: bool) -> None:
        self.now_s += 11.0 if late else 0.0
        self.same(lambda runs: runs.expire(self.now_s))
        assert self.same(lambda runs: runs.expire(self.now_s)) == 0

    @rule()
    def trim(self) -> None:
        self.same(lambda runs: runs.trim(self.now_s - 12))

    # ---- what holds

    def found(self, tenant: str, id: str) -> Variable | None:
        found: Variable | None = self.same(lambda runs: runs.variable(tenant, id, now_s=self.now_s))
        return found

    @invariant()
    def both_remember_the_same(self) -> None:
        for run in self.runs:
            self.same(lambda runs, run=run: _plain(runs.run(run)))
        for tenant in TENANTS:
            self.same(lambda runs, tenant=tenant: runs.use(tenant))
            self.same(lambda runs, tenant=tenant: runs.assets.collections(tenant))
            self.same(lambda runs, tenant=tenant: runs.runs(tenant=tenant, limit=1000))
            self.same(lambda runs, tenant=tenant: dict(runs.counts(tenant=tenant)))
            named = self.same(lambda runs, tenant=tenant: runs.named(tenant, "game", NAMES, now_s=self.now_s))
            assert all(each.tenant == tenant for each in named.values())

    @invariant()
    def both_tell_of_the_same_changes(self) -> None:
        told = [runs.changes(place, 10_000) for runs, place in zip(self.both, self.places, strict=True)]
        assert set(told[0].changes) == set(told[1].changes)
        self.places = [news.place for news in told]

    @invariant()
    def what_is_written_stays_as_it_is(self) -> None:
        for tenant in TENANTS:
            seen = self.same(
                lambda runs, tenant=tenant: runs.variables(tenant, self.variables, now_s=self.now_s)
            )
            for id, variable in seen.items():
                if variable.state in ("ready", "failed", "cancelled"):
                    # When it goes is known only once its run has ended.
                    plain = replace(variable, expires_at_s=None)
                    assert self.written.setdefault(id, plain) == plain


def _plain(whole: Any) -> Any:
    """As one compares it: in memory what has expired stays in a run's rows as it does in the database."""
    return None if whole is None else asdict(whole)


def test_the_database_and_memory_remember_the_same(tmp_path: Path) -> None:
    BothRemember.empty = tmp_path / "empty"
    Store.open(BothRemember.empty).close()
    run_state_machine_as_test(
        BothRemember,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            database=None,
            # Shrinking takes minutes; the steps are told as they are.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
