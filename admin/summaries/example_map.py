"""A tenant's bank as a map: similar examples stand together, coloured by engine, gain or age."""

from __future__ import annotations

from typing import Any

from admin.choices import offered
from admin.computing import Computations
from admin.formats import tenant_label
from admin.map_maker import maps
from admin.page import Asked, Summary
from admin.roles import Content
from admin.sources import Sources
from store.examples.accounting import decayed
from store.examples.places import Place

SHOWN = 3_000
"""Number of points that a browser draws smoothly as SVG: plotly's WebGL needs what our security policy forbids."""
COLOURS = ("engine", "gain", "age")
_SCALE = [[0.0, "series-8"], [0.5, "series-1"], [1.0, "series-4"]]
"""From low to high; every colour of it is visible on the background in both themes."""


def example_map(sources: Sources, asked: Asked) -> Summary:
    """The map of one tenant. Query: `tenant`; `colour`: engine, gain or age."""
    colour = asked.choice("colour", COLOURS, "engine")
    names = sources.tenant_names()
    counts = sorted(sources.store.examples.tenants().items(), key=lambda each: (-each[1], each[0]))
    tenant = asked.text("tenant", longest=200) or (counts[0][0] if counts else "")
    places = sources.store.examples.places
    made, rows = places.made_at_s(tenant), places.of(tenant, SHOWN)
    state = shared(sources).state(tenant, begin=False)
    problem = None if state.computing else state.problem
    return {
        "tenant": tenant,
        "tenants": offered(((each, tenant_label(names, each)) for each, _ in counts), tenant),
        "colour": colour,
        "made_at_s": made[0] if made else None,
        "on_it": made[1] if made else 0,
        "shown": len(rows),
        "total": sources.store.examples.totals(tenant).examples if tenant else 0,
        "drawing": state.computing,
        "problem": "" if problem is None else str(problem) or type(problem).__name__,
        "chart": _chart(rows, colour, asked.now_s) if rows else None,
    }


def shared(sources: Sources) -> Computations[str]:
    """The maps that are drawn for all pages, by tenant."""
    return sources.shared("map", lambda: maps(sources.open_store))


def _chart(rows: list[Place], colour: str, now_s: float) -> dict[str, Any]:
    traces = []
    if colour == "engine":
        engines = sorted({row.engine for row in rows})
        for place, engine in enumerate(engines):
            own = [row for row in rows if row.engine == engine]
            traces.append(_trace(own, engine, {"color": f"series-{place % 8 + 1}"}))
    else:
        values = [
            decayed(row.gain, row.gain_at_s, now_s) if colour == "gain" else (now_s - row.created_at_s) / 3600
            for row in rows
        ]
        bar = {
            "title": {"text": "improvement potential" if colour == "gain" else "hours old"},
            "thickness": 12,
        }
        traces.append(
            _trace(
                rows,
                "examples",
                {"color": values, "colorscale": _SCALE, "showscale": True, "colorbar": bar},
            )
        )
    bare = {"visible": False}
    return {
        "traces": traces,
        "layout": {
            "xaxis": bare,
            "yaxis": bare,
            "margin": {"l": 8, "r": 8, "t": 36, "b": 8},
            "dragmode": "pan",
        },
    }


def _trace(rows: list[Place], name: str, marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [round(row.x, 4) for row in rows],
        "y": [round(row.y, 4) for row in rows],
        "customdata": [row.example_id for row in rows],
        # Plotly interprets some HTML in hover texts.
        "text": Content([row.question.replace("<", "‹").replace(">", "›") for row in rows]),
        "hovertemplate": "%{customdata}: %{text}<extra>%{fullData.name}</extra>",
        "marker": {"size": 7, "opacity": 0.75, **marker},
    }
