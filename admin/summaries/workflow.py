"""One workflow: its graph as declared and as carried out side by side, and the pass behind each change."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from admin.page import Asked, BadParameter, NotThere, Summary
from admin.roles import Content
from admin.run_drawing import NODE_HEIGHT, drawn
from admin.sources import Sources
from admin.summaries.runs import listed
from workflows.declared import DefinitionError
from workflows.definition import PASSES, Definition
from workflows.drawing import Drawing, DrawnNode, draw
from workflows.plan import Note, planned

NODE_WIDTH = 158
"""Pixels."""
_PIECES = 4
"""Of a list that are drawn: the first ones and the last."""
_NAME_CHARACTERS = 21
_LABEL_CHARACTERS = 25
_NODES_DRAWN = 150
_RUNS = 10


def workflow(sources: Sources, asked: Asked) -> Summary:
    """The workflow that the path names; `tenant` and `version` name a tenant's own.

    `without`: passes to leave out, separated by commas. Raises NotThere.
    """
    definition, facts = _found(sources, asked)
    runs = sources.store.runs.runs(workflow=asked.path["name"], tenant=facts["tenant"] or None, limit=_RUNS)
    without = _without(asked)
    told: Summary = {
        **facts,
        "name": asked.path["name"],
        "all_passes": list(PASSES),
        "without": sorted(without),
        "runs": [listed(each, sources.tenant_names(), asked.now_s) for each in runs],
        "explained": None,
    }
    if definition is not None:
        told["explained"] = _explained(definition, sources, without)
    return told


def _found(sources: Sources, asked: Asked) -> tuple[Definition | None, dict[str, Any]]:
    """(the definition, or None where it cannot be read any more; whose it is and which)."""
    name, tenant, version = asked.path["name"], asked.text("tenant"), asked.text("version")
    configured = sources.gateway.workflows.configured.get(name)
    if configured is not None and version in ("", configured.version):
        return configured, _facts(configured.source, "", "", configured.version)
    kept = sources.store.runs.assets.workflow(tenant, name, version or None) if tenant else None
    if kept is None:
        raise NotThere(
            "There is no such workflow, or not in this version any more: the configuration was changed, or it was removed."
        )
    source = orjson.loads(kept.definition)
    facts = _facts(source, tenant, sources.tenant_names().get(tenant, ""), kept.version)
    facts |= {"number": kept.number, "created_at_s": kept.created_at_s}
    try:
        return sources.gateway.workflows.read(name, source), facts
    except DefinitionError as error:
        return None, facts | {"problem": Content(str(error))}


def _facts(source: Mapping[str, Any], tenant: str, tenant_name: str, version: str) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "tenant_name": tenant_name,
        "version": version,
        "number": None,
        "created_at_s": None,
        "problem": None,
        # Prompts stand in it.
        "source": Content(json.dumps(source, indent=2, ensure_ascii=False)),
    }


def _without(asked: Asked) -> frozenset[str]:
    named = frozenset(filter(None, asked.text("without", longest=100).split(",")))
    unknown = sorted(named - set(PASSES))
    if unknown:
        raise BadParameter(f"without is {unknown[0]!r}; some of {', '.join(PASSES)} are right")
    return named


def _explained(definition: Definition, sources: Sources, without: frozenset[str]) -> dict[str, Any]:
    passes = definition.passes - without
    profile = sources.gateway.workflows.profile()
    plain, made = planned(definition, profile, frozenset()), planned(definition, profile, passes)
    declared, carried_out = (draw(definition, each.plans, most=_PIECES) for each in (plain, made))
    return {
        "inputs": [
            {"name": name, "kind": spec.kind, "required": spec.required}
            for name, spec in definition.inputs.items()
        ],
        "steps": len(definition.steps),
        "chain": definition.chained,
        "output": definition.output,
        "passes": sorted(passes, key=PASSES.index),
        "p_graph": _drawing(declared, made.notes, gone=True),
        "e_graph": _drawing(carried_out, made.notes, gone=False),
        "changes": [
            {"number": number, "by": note.by, "step": note.step, "what": note.what}
            for number, note in enumerate(made.notes, 1)
        ],
    }


# ---- the graphs


def _drawing(drawing: Drawing, notes: Sequence[Note], *, gone: bool) -> dict[str, Any]:
    """`gone`: whether edges are marked that a pass took away, else nodes that it changed or made."""
    nodes = {node.id: node for node in drawing.nodes}
    before: dict[str, set[str]] = {id: set() for id in nodes}
    for edge in drawing.edges:
        before[edge.after].add(edge.before)
    kinds = {(edge.before, edge.after): edge.kind for edge in drawing.edges}
    changed, removed = _marked(notes)
    made = drawn(before, {id: node.layer for id, node in nodes.items()}, node_width=NODE_WIDTH, down=True)
    told: dict[str, Any] = {"nodes": [], "edges": [], "count": len(nodes)}
    if len(nodes) > _NODES_DRAWN:
        return told
    told |= {"width": made.width, "height": made.height, "node_width": NODE_WIDTH, "node_height": NODE_HEIGHT}
    for id, (x, y) in made.nodes.items():
        marks = [] if gone else changed[nodes[id].node]
        told["nodes"].append(_node(nodes[id], x, y, marks, notes))
    for one, other, path in made.edges:
        numbers = removed[nodes[one].step, nodes[other].step] if gone else []
        told["edges"].append(
            {
                "from": one,
                "to": other,
                "path": path,
                "kind": kinds[one, other],
                "by": notes[numbers[0] - 1].by if numbers else "",
            }
        )
    return told


def _marked(
    notes: Sequence[Note],
) -> tuple[Mapping[str, list[int]], Mapping[tuple[str, str], list[int]]]:
    """The numbers of the notes by node, and by the steps that no longer wait."""
    changed: defaultdict[str, list[int]] = defaultdict(list)
    removed: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, note in enumerate(notes, 1):
        for node in note.nodes:
            changed[node].append(number)
        if note.edge is not None:
            removed[note.edge].append(number)
    return changed, removed


def _node(node: DrawnNode, x: int, y: int, marks: Sequence[int], notes: Sequence[Note]) -> dict[str, Any]:
    return {
        "id": node.id,
        "step": node.step,
        "primitive": node.primitive,
        "items": node.items,
        "label": node.label,
        "x": x,
        "y": y,
        "name": _cut(node.id, _NAME_CHARACTERS),
        "said": _cut(" ".join([node.label, *(f"[{number}]" for number in marks)]), _LABEL_CHARACTERS),
        "by": notes[marks[-1] - 1].by if marks else "",
        "changes": list(marks),
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
