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


def test_a_function_over_the_bound_is_complex() -> None:
    many = "".join(f"    if given == {n}:\n        return {n}\n" for n in range(15))
    assert counts_of(f"def many(given):\n{many}").complex == 1
