"""What each page of the menu cannot know, in a sentence at its end: a figure is read for more than it says otherwise."""

from __future__ import annotations

UNKNOWN: dict[str, str] = {
    "/overview": "how good answers are that nobody judged or rated, what the reference would have said at another length, "
    "and what was asked past this gateway",
    "/trends": "what changed outside of the gateway where a line bends",
    "/cost": "what a provider's invoice says: it has rounding and taxes, and what was asked past this gateway",
    "/requests": "requests that never arrived, texts that were not kept, and whether an answer that nobody rated was right",
    "/sessions": "whether requests that begin alike are one conversation, where the client does not name its session",
    "/runs": "what an application does between its steps, and whether a step of unknown outcome had an effect",
    "/workflows": "what a workflow would take with inputs unlike those that it has had",
    "/examples": "whether an example is true: only what judges and people said of it",
    "/cache": "whether a stored answer is still true",
    "/datasets": "whether a line is true: admission looks for secrets and private data",
    "/engines": "why a provider is slow or down, and what its invoice says: costs are by the configured prices",
    "/router": "what another engine would have answered to a request that was not compared",
    "/playground": "what an engine answers the next time: the same prompt may be answered otherwise",
    "/tasks": "whether the teacher's labels are right: agreement is with the teacher",
    "/review": "what people would say of answers that were not sampled: the interval says how far off that may be",
    "/replay": "what a run brings before its answers are judged: a planned benefit is an estimate",
    "/learning": "how a version does on requests unlike those that it was measured on",
    "/tenants": "who uses a key, and what a tenant asked past this gateway",
    "/accounts": "who else knows a password, and who sits at a session that is open",
    "/audit": "what was changed in files or in the database past these pages, the admin API and the commands",
    "/settings": "whether other machines run with the same file and environment",
}
"""By the page's path; pages below one have its sentence."""
