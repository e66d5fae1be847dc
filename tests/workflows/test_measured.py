"""What measured times tell."""

import pytest

from workflows.measured import Measured, busy_s, module_chain_s

RUN = (
    Measured("index.embed[0]", "index", 0.0, 2.0),
    Measured("index.embed[1]", "index", 1.0, 3.0),
    Measured("queries", "queries", 0.0, 2.5),
    Measured("found.embed[0]", "found", 1.0, 1.5),
    Measured("found.embed[1]", "found", 2.5, 3.0),
    Measured("answer", "answer", 3.0, 7.0),
)


def test_a_chain_of_modules_does_one_after_the_other_what_went_side_by_side() -> None:
    assert busy_s(RUN) == {"index": 3.0, "queries": 2.5, "found": 1.0, "answer": 4.0}
    assert module_chain_s(RUN) == pytest.approx(10.5)
    assert module_chain_s(()) == 0.0
