from __future__ import annotations

from gateway.labels import OTHER, Asker, AskerLabels
from router.finished import Outcome
from tests.finished import finished


def of(labels: AskerLabels, **changes: object) -> Asker:
    return labels.of(finished(**({"api": "chat", "tenant_name": "acme", "key_name": "web"} | changes)))


def test_names_are_labels_and_hashes_where_there_is_no_name() -> None:
    labels = AskerLabels()
    assert of(labels) == ("m", "acme", "web", "chat")
    assert of(labels, tenant_name="", key_name="", key_id="k1") == ("m", "a1", "k1", "chat")
    assert of(labels, key_name="unnamed", key_id="k2").key == "k2"


def test_each_label_has_only_so_many_values() -> None:
    labels = AskerLabels(most_values=3)
    found = {of(labels, model=f"m{n}", tenant_name=f"t{n}", key_name=f"k{n}") for n in range(100)}
    assert len(found) == 4 and (OTHER, OTHER, OTHER, "chat") in found
    assert of(labels, model="m1", tenant_name="t99").model == "m1"


def test_labels_together_are_bounded_too() -> None:
    labels = AskerLabels(most_values=100, most_together=10)
    found = {of(labels, model=f"m{n % 10}", tenant_name=f"t{n // 10}") for n in range(100)}
    assert len(found) <= 10 + 10, "each model once more, with everybody else"


def test_what_is_not_answered_earns_no_label() -> None:
    labels = AskerLabels()
    refused = of(labels, model="invented", tenant_name="guest", outcome=Outcome.REFUSED, status=401)
    assert refused == (OTHER, OTHER, OTHER, "chat")
    assert of(labels).model == "m"
    assert of(labels, outcome=Outcome.FAILED, status=502) == ("m", "acme", "web", "chat")


def test_a_long_name_is_cut() -> None:
    assert len(of(AskerLabels(), model="m" * 10_000).model) == 100
