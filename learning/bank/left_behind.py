"""Says what the first gateway key puts out of reach: until then clients were tenants by their own credentials."""

from __future__ import annotations

import shlex

from store import Store


def left_behind(store: Store, tenant: str) -> list[str]:
    """List what no request reaches once there is a key, a line per former tenant, and how to bring examples to `tenant`.

    Empty if nothing was remembered. Blocks.
    """
    examples, data = store.examples.tenants(), shlex.quote(str(store.folder))
    lines = [
        f"Left behind: {examples.get(whose, 0)} examples and {store.answers.exact.count(whose)} exact answers of "
        f"tenant id:{whose}, which no request reaches from now on."
        for whose in sorted(store.tenants(), key=lambda one: -examples.get(one, 0))
    ]
    if examples:
        lines += [
            "To bring a tenant's examples along (exact answers expire by themselves, and what end users have to "
            "themselves stays theirs):",
            f"  understudy export --data {data} --tenant id:HEX -o moved.jsonl && "
            f"understudy import moved.jsonl --data {data} --tenant {shlex.quote(tenant)}",
        ]
    return lines
