"""What is counted of a file: code without its words, and each place where it decides."""

from __future__ import annotations

from benchmarks.density import counts_of

SOURCE = '''"""A docstring
of two lines."""

# A comment.
class One:
    """Words."""

    def decides(self, given):
        for each in given:
            if each and self or not given:
                return [one if one else 0 for one in given]
        try:
            return given(
                1,
            )
        except ValueError:
            while True:
                pass
'''


def test_code_and_branches_are_counted() -> None:
    counts = counts_of(SOURCE)
    assert (counts.lines, counts.code, counts.classes, counts.complex) == (18, 12, 1, 0)
    # for, if, and, or, the comprehension, the conditional in it, except, while
    assert counts.branches == 8
