"""Requests of a batch wait on disk for their answers."""

from __future__ import annotations

from store.examples.batch_inputs import BatchInputs


def test_a_request_is_found_by_its_id_and_by_no_other() -> None:
    inputs = BatchInputs()
    for i in range(3):
        inputs.put(f"r-{i}", {"messages": [{"role": "user", "content": str(i)}]})
    inputs.put("r-1", {"messages": []})
    assert inputs.get("r-0") == {"messages": [{"role": "user", "content": "0"}]}
    assert inputs.get("r-1") == {"messages": []}
    assert inputs.get("r-9") is None
    inputs.close()
