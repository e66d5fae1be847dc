from __future__ import annotations

from store import Store
from tests.store.rows import request_record


def test_every_request_is_read_once_in_the_order_of_writing(store: Store) -> None:
    records = [request_record(number, tenant="b2" if number % 2 else "a1") for number in (3, 1, 2, 5, 4)]
    for record in records:
        store.decisions.requests.record(record).result(30)
    pages = list(store.decisions.pages.pages(page=2))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [one for page in pages for one in page] == records
    (of_one,) = store.decisions.pages.pages("b2")
    assert of_one == [record for record in records if record.tenant == "b2"]


def test_only_a_span_of_time_where_one_is_named(store: Store) -> None:
    for number in range(1, 5):
        store.decisions.requests.record(request_record(number, started_at_s=float(number))).result(30)
    (page,) = store.decisions.pages.pages(since_s=2.0, until_s=4.0)
    assert [record.started_at_s for record in page] == [2.0, 3.0]
    assert not list(store.decisions.pages.pages(since_s=9.0))
