"""What the pages' terms mean, in a sentence each: for the tooltips in templates, and the page that lists them."""

from __future__ import annotations

from collections.abc import Mapping

TERMS: Mapping[str, str] = {
    "At risk": "The measured loss of a guarantee is near what it allows.",
    "Cache hit": "The answer was stored before, for exactly this request, and was given again without asking an engine.",
    "Capacity": "The requests per second that workers can answer before latency rises steeply, as estimated.",
    "Conflicting duplicates": "Two examples with the same question and different answers.",
    "Critical": "Something fails now, or quality is surely below what is wanted.",
    "Direct": "The engine was asked with the client's own prompt, without examples.",
    "Exploration": "An engine that did not look best was asked now and then, to learn what it does.",
    "Failed over": "The engine that was chosen failed, and another one answered: neither offloaded nor saved.",
    "Few-shot": "Past questions with their answers were put into the prompt as examples.",
    "Gateway overhead": "The time of a request that was not spent waiting for an engine.",
    "Human-corrected": "A person gave this answer as the right one.",
    "Improvement potential": "How much better answers could become if this example had a better answer.",
    "Latency": "From the request's arrival to the last token of its answer.",
    "Load shedding": "Overloaded workers leave out what no client waits for, in a fixed order.",
    "Model versions": "Every version of what was learnt: routers, scorers and students.",
    "Net saved": "What the same answers would have cost from the reference, less what they and all that is learnt did cost.",
    "Novel": "Too little like anything seen before to be offloaded.",
    "Offloaded": "A small engine answered, by decision, instead of the reference.",
    "p50, p95": "Half, and 95 of 100, of the requests took at most this long.",
    "Propensity": "The probability with which the router took the engine that it took.",
    "Quality guarantee": "A bound on the mean loss of quality by offloading; where needed, less is offloaded to keep it.",
    "Queued": "Requests that wait until an engine has a place free.",
    "Re-answers weak examples": "Replay asks the reference again where an example's answer was judged weak (distil).",
    "Reference": "A model's largest engine, with which others are compared.",
    "Routing decision": "Which engines and examples were weighed for a request, and which were taken.",
    "Throttling": "A guarantee holds offloading back now.",
    "TTFT": "Time to first token: from the request's arrival to the first token of its answer.",
    "Utilisation": "The share of an engine's places that are taken.",
    "Warning": "Something wants attention, and nothing fails yet.",
}
"""Meaning by term, in the order of the alphabet."""
