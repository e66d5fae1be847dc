"""Tasks and their students: what is taken over and how sure that is, one task's figures, and its requests to review."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admin.charts import lines, stacked
from admin.choices import offered
from admin.formats import tenant_label
from admin.page import Asked, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.learning import version
from admin.summaries.spans import fitting
from learning.guarantee.standings import TaskReader, TaskStanding
from learning.tasks.distances import DistanceReader
from router.tasks.form import normalised
from router.tasks.task import Task
from store.records import ArtifactRecord, TaskAnswer
from store.tasks.answers import TaskCount
from store.tasks.tasks import TaskRow

SPANS = {"hour": (3600.0, 300.0), "day": (86_400.0, 3600.0), "week": (7 * 86_400.0, 6 * 3600.0)}
"""Length and step of what is added up, in seconds."""
_MOST_TASKS = 100
_MATRIX_LABELS = 12
_REVIEWED_AT_ONCE = 20
_MOST_LABELS = 200
_SHOWN_CHARACTERS = 4000
_VERSIONS = 20


def tasks(sources: Sources, asked: Asked) -> Summary:
    """Every task; `tenant`, an id, for those of one tenant; `span`: hour, day or week."""
    span = asked.choice("span", tuple(SPANS), fitting(sources, asked.now_s, "hour", "day"))
    tenant = asked.text("tenant", longest=64)
    names = sources.tenant_names()
    known = sources.store.tasks.known.all()
    rows = [row for row in known if not tenant or row.tenant == tenant]
    rows.sort(key=lambda row: (row.state != "proposed", row.model, row.name, row.tenant))
    standings = _standings(sources, rows[:_MOST_TASKS])
    since_s = asked.now_s - SPANS[span][0]
    return {
        "span": span,
        "tenant": tenant,
        "tenants": offered(
            sorted(
                ({"id": of, "name": tenant_label(names, of)} for of in {row.tenant for row in known}),
                key=lambda one: one["name"],
            ),
            tenant,
        ),
        "examples_kept": bool(sources.gateway.actions.embed),
        "being_read": standings is None,
        "more": max(0, len(rows) - _MOST_TASKS),
        "tasks": [_listed(sources, row, standings, names, since_s) for row in rows[:_MOST_TASKS]],
    }


def task(sources: Sources, asked: Asked) -> Summary:
    """One task; `span`: hour, day or week. Raises NotThere."""
    row = find(sources, asked)
    span = asked.choice("span", tuple(SPANS), "day")
    length_s, step_s = SPANS[span]
    since_s = asked.now_s - length_s
    answers = sources.store.tasks.answers
    counts = answers.counts(row.tenant, row.slot, since_s=since_s, step_s=step_s)
    standings = _standings(sources, [row])
    labels = labels_of(sources, row)
    active = sources.store.artifacts.active("student", row.tenant, row.slot)
    return {
        "span": span,
        "being_read": standings is None,
        "task": _listed(sources, row, standings, sources.tenant_names(), since_s),
        "labels": [Content(label) for label in labels],
        "declared": bool(row.labels),
        "unread": _unread(counts),
        "people": _people(counts),
        "confusions": _confusions(counts),
        "answered": _answered(counts, since_s, asked.now_s, step_s),
        "agreement": _agreement(counts),
        "distance": _distance(sources, active) if active is not None else None,
        "review": [
            _to_review(each)
            for each in answers.uncertain(row.tenant, row.slot, _REVIEWED_AT_ONCE)
            if labels and each.input
        ],
        "versions": [
            version(record)
            for record in sources.store.artifacts.versions("student", row.tenant, row.slot)[:_VERSIONS]
        ],
        "frozen": ("student", row.tenant, row.slot) in sources.store.artifacts.frozen(),
    }


def find(sources: Sources, asked: Asked) -> TaskRow:
    """The task that the path names. Raises NotThere."""
    for row in sources.store.tasks.known.all():
        if task_id(row) == asked.path["id"]:
            return row
    raise NotThere("This task is not listed, or not any more: its tenant may have been forgotten.")


def task_id(row: TaskRow) -> str:
    """A task's name in addresses: a model's own may hold anything."""
    return hashlib.sha256(f"{row.tenant}\0{row.slot}".encode()).hexdigest()[:16]


def labels_of(sources: Sources, row: TaskRow) -> list[str]:
    """The labels that a person may give: those that are declared, else those met, the commonest first."""
    if row.labels:
        return list(row.labels)
    met: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in sources.store.tasks.answers.counts(row.tenant, row.slot):
        if each.label is not None:
            met[normalised(each.label)][each.label] += each.count
    ranked = sorted(met.values(), key=lambda ways: -ways.total())[:_MOST_LABELS]
    return [ways.most_common(1)[0][0] for ways in ranked]


# ---- one task, in a list and at the head of its own page


Standings = Mapping[str, TaskStanding]
"""By task's id. A proposal has none yet, nor has what is not served any more."""


def _standings(sources: Sources, rows: Sequence[TaskRow]) -> Standings | None:
    """None while the log is being read."""
    models = {model.name: model.policy == "fixed" for model in sources.gateway.models}
    reader = sources.shared("task-standings", lambda: TaskReader(sources.store.tasks.answers, models))
    on = [(task_id(row), sources.gateway.task_of(row)) for row in rows if row.state != "proposed"]
    wanted = {id: task for id, task in on if task is not None}
    standings = reader.of(list(wanted.values()))
    if standings is None:
        return None
    return dict(zip(wanted, standings, strict=True))


def _listed(
    sources: Sources,
    row: TaskRow,
    standings: Standings | None,
    names: dict[str, str],
    since_s: float,
) -> Summary:
    answers = sources.store.tasks.answers
    by: Counter[str] = Counter()
    for each in answers.counts(row.tenant, row.slot, since_s=since_s):
        by[each.answered_by] += each.count
    requests = by["student"] + by["teacher"] + by["other"]
    task = sources.gateway.task_of(row)
    standing = (standings or {}).get(task_id(row))
    active = sources.store.artifacts.active("student", row.tenant, row.slot)
    state, says = _state(row, task, standing, trained=active is not None)
    proven = standing.standing if standing is not None else None
    return {
        "id": task_id(row),
        "name": row.name,
        "model": row.model,
        "tenant": row.tenant,
        "tenant_name": tenant_label(names, row.tenant),
        "source": row.source,
        "switch": row.state,
        "by": row.by,
        "at_s": row.at_s,
        "grounds": dict(row.grounds),
        "state": state,
        "says": says,
        "requests": requests,
        "by_student": by["student"],
        "share": by["student"] / requests if requests else None,
        "saved_usd": answers.saved_usd(row.tenant, row.slot, since_s=since_s),
        "max_loss": task.max_loss if task is not None else None,
        "strategy": task.strategy if task is not None else None,
        "compared": proven.compared if proven is not None else 0,
        "lower": proven.lower if proven is not None and proven.compared else None,
        "threshold": proven.threshold if proven is not None else None,
        "check_share": proven.check_share if proven is not None and proven.threshold is not None else None,
        "budget": _budget(task),
        "budget_share": standing.budget_share if standing is not None else None,
        "drifting": standing is not None and standing.drifting,
        "version": active.id if active is not None else None,
    }


def _state(
    row: TaskRow, task: Task | None, standing: TaskStanding | None, *, trained: bool
) -> tuple[str, str]:
    """A word, and a sentence for the person."""
    if row.state == "proposed":
        return "proposed", "Found in the log. The teacher answers everything until you enable it."
    if task is None:
        return (
            "not served",
            "Its model is not configured any more, or the configuration does not declare the task.",
        )
    if row.state == "paused":
        return "paused", "The teacher answers everything; what it says is still learnt."
    if not trained:
        return "learning", "No student yet: it is trained once enough of the teacher's labels are there."
    if standing is None:
        return "on", "What the log says of it is still being read."
    proven = standing.standing
    if task.budget is not None or task.threshold is not None:
        return (
            "answering",
            "By its budget or fixed threshold: the doubtful requests go to the teacher, nothing is proven first.",
        )
    if proven.threshold is not None:
        return "answering", f"It answers what it is at least {proven.threshold:.0%} sure of."
    if proven.waits and proven.compared:
        return (
            "waiting",
            "What its answers may have lost has used up what is guaranteed: the teacher answers about"
            f" {proven.waits} more requests.",
        )
    return "comparing", "Its answers are compared with the teacher's; so far it is not sure enough of any."


def _budget(task: Task | None) -> str:
    """In words; empty without one."""
    if task is None or task.budget is None:
        return ""
    if task.budget.calls_per_day is not None:
        return f"{task.budget.calls_per_day} teacher calls a day"
    if task.budget.share is not None:
        return f"{task.budget.share:.0%} of requests to the teacher"
    return f"${task.budget.usd_per_day:g} a day for the teacher"


# ---- figures of one task


def _compared(counts: Iterable[TaskCount]) -> Iterable[tuple[TaskCount, bool]]:
    """The teacher's answers that the student predicted, and whether it said the same. What was no label differs."""
    for each in counts:
        if each.answered_by == "teacher" and each.student_label is not None:
            same = each.label is not None and normalised(each.label) == normalised(each.student_label)
            yield each, same


def _unread(counts: Sequence[TaskCount]) -> Summary:
    """Answers of the teacher that are no label, by why; they went to the client as they came, and are not learnt."""
    why: Counter[str] = Counter()
    total = 0
    for each in counts:
        if each.answered_by == "teacher":
            total += each.count
            why[each.unread] += each.count if each.unread else 0
    return {
        "answers": total,
        "share": why.total() / total if total else None,
        "why": {code: count for code, count in why.most_common() if count},
    }


def _people(counts: Sequence[TaskCount]) -> Summary:
    """Labels that people gave, and how often the student had said the same."""
    given = [each for each in counts if each.answered_by == "person"]
    known = [each for each in given if each.label is not None and each.student_label is not None]
    same = (each for each in known if normalised(each.label or "") == normalised(each.student_label or ""))
    return {
        "labels": sum(each.count for each in given),
        "compared": sum(each.count for each in known),
        "agreed": sum(each.count for each in same),
    }


def _confusions(counts: Sequence[TaskCount]) -> Summary:
    """Teacher by student, of the commonest labels."""
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    cells: Counter[tuple[str, str]] = Counter()
    for each, _ in _compared(counts):
        if each.label is not None and each.student_label is not None:
            teacher, student = normalised(each.label), normalised(each.student_label)
            written[teacher][each.label] += each.count
            written[student][each.student_label] += 0
            cells[teacher, student] += each.count
    teachers: Counter[str] = Counter()
    for (teacher, _), count in cells.items():
        teachers[teacher] += count
    shown = sorted(written, key=lambda label: (-teachers[label], label))[:_MATRIX_LABELS]
    return {
        "labels": [Content(written[label].most_common(1)[0][0]) for label in shown],
        "rows": [[cells[teacher, student] for student in shown] for teacher in shown],
        "others": cells.total() - sum(cells[t, s] for t in shown for s in shown),
        "compared": cells.total(),
        "agreed": sum(count for (teacher, student), count in cells.items() if teacher == student),
    }


def _answered(counts: Sequence[TaskCount], since_s: float, now_s: float, step_s: float) -> dict[str, Any]:
    """A chart: who answered, over time."""
    sums: Counter[tuple[float, str]] = Counter()
    for each in counts:
        sums[each.start_s, each.answered_by] += each.count
    starts = sorted({start for start, _ in sums})
    series = [
        (who, [sums[start, who] for start in starts], colour)
        for who, colour in (("student", "series-1"), ("teacher", "series-2"), ("other", "series-3"))
        if who != "other" or any(by == who for _, by in sums)
    ]
    chart = stacked(starts, series, unit="requests", times=True)
    for trace in chart["traces"]:
        # Without a width plotly draws a single bar as thin as a line.
        trace["width"] = 850 * step_s
    chart["layout"]["xaxis"]["range"] = [int(since_s * 1000), int(now_s * 1000)]
    return {"requests": sum(sum(values) for _, values, _ in series), "chart": chart}


def _agreement(counts: Sequence[TaskCount]) -> dict[str, Any]:
    """A chart: how often the teacher said what the student did, over time; of checks apart."""
    seen: Counter[tuple[float, bool]] = Counter()
    agreed: Counter[tuple[float, bool]] = Counter()
    for each, same in _compared(counts):
        for checks in {False, each.checked}:
            seen[each.start_s, checks] += each.count
            agreed[each.start_s, checks] += each.count if same else 0
    starts = sorted({start for start, _ in seen})

    def shares(checks: bool) -> list[float | None]:
        return [
            agreed[start, checks] / seen[start, checks] if seen[start, checks] else None for start in starts
        ]

    series: list[tuple[str, Sequence[float | None], str]] = [
        ("all that both answered", shares(False), "series-1")
    ]
    if any(checks for _, checks in seen):
        series.append(("checks: the student would have answered", shares(True), "series-5"))
    chart = lines(starts, series, unit="same label", times=True)
    chart["layout"]["yaxis"] |= {"tickformat": ".0%", "range": [0, 1.02]}
    return {
        "periods": [
            {"at_s": start, "compared": seen[start, False], "agreed": agreed[start, False]}
            for start in starts
        ],
        "chart": chart,
    }


def _distance(sources: Sources, active: ArtifactRecord) -> Summary | None:
    """How far inputs lie from those that the student in use was trained on: now, at its training, over time."""
    store = sources.store
    reader = sources.shared("task-distances", lambda: DistanceReader(store.artifacts, store.tasks.answers))
    found = reader.of(active)
    if found is None:
        return None
    times = [at_s for at_s, _ in found.blocks]
    series: list[tuple[str, Sequence[float | None], str]] = [
        ("inputs, median of 50", [median for _, median in found.blocks], "series-1"),
        ("not the student's beyond", [found.farthest] * len(times), "series-2"),
    ]
    if found.at_training is not None:
        series.append(("at its training", [found.at_training] * len(times), "series-3"))
    return {
        "now": found.now,
        "at_training": found.at_training,
        "farthest": found.farthest,
        "beyond": found.beyond,
        "chart": lines(times, series, unit="cosine distance", times=True),
    }


def _to_review(row: TaskAnswer) -> Summary:
    return {
        "request_id": row.request_id,
        "at_s": row.at_s,
        "input": Content(row.input[:_SHOWN_CHARACTERS]),
        "cut": len(row.input) > _SHOWN_CHARACTERS,
        "student": Content(row.student_label or ""),
        "confidence": row.confidence,
        "teacher": Content(row.label or ""),
        "answered_by": row.answered_by,
    }
