"""The settings in force, where each comes from, and what a pasted configuration would change."""

from __future__ import annotations

from admin.page import Asked, Done, Summary
from admin.sources import Sources

_LONGEST = 500_000


def settings(sources: Sources, asked: Asked) -> Summary:
    """Filters: `q`, words of a key or its description; `set`: 1 only those that are set, 0 all (the default with words)."""
    words = asked.text("q", longest=200).lower().split()
    only_set = asked.choice("set", ("0", "1"), "0" if words else "1") == "1"
    rows = sources.gateway.settings()
    shown = [
        row
        for row in rows
        if all(word in f"{row.key} {row.description}".lower() for word in words)
        and not (only_set and row.source == "default")
    ]
    return {
        "q": " ".join(words),
        "set": "1" if only_set else "0",
        "file": sources.gateway.config_file,
        "news": list(sources.gateway.settings_news()),
        "total": len(rows),
        "settings": [
            {"key": row.key, "value": row.value, "source": row.source, "description": row.description}
            for row in shown
        ],
    }


def check(sources: Sources, asked: Asked) -> Done:
    """Checks `text`, a configuration file. Changes nothing."""
    text = asked.text("text", longest=_LONGEST)
    checked = sources.gateway.check(text)
    return Done(
        "The pasted configuration was checked; nothing was changed.",
        detail={"problems": len(checked.problems), "changes": len(checked.changes)},
        again=True,
        shown={
            "text": text,
            "problems": list(checked.problems),
            "changes": [{"key": key, "now": now, "then": then} for key, now, then in checked.changes],
        },
    )
