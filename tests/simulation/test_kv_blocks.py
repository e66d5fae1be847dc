"""Blocks of key-value memory."""

from __future__ import annotations

from simulation.kv_blocks import KvBlocks, block_hashes


def filled(blocks: KvBlocks, hashes: list[int]) -> list[int]:
    """Take and learn all of them; those that count as known content."""
    blocks.take(len(hashes))
    return [one for one in hashes if blocks.learn(one)]


def test_equal_beginnings_have_equal_hashes_and_what_follows_a_difference_has_not() -> None:
    one = block_hashes("a" * 64 + "b" * 64 + "c" * 64, 4)
    other = block_hashes("a" * 64 + "x" * 64 + "c" * 64, 4)
    assert len(one) == 3 and one[0] == other[0] and one[1] != other[1] and one[2] != other[2]


def test_a_part_of_a_block_has_no_hash() -> None:
    assert len(block_hashes("a" * 127, 4)) == 1


def test_released_blocks_are_found_until_their_place_is_needed() -> None:
    blocks = KvBlocks(4, shares=True)
    learnt = filled(blocks, [1, 2, 3])
    blocks.release(learnt, 0)
    assert blocks.known([1, 2, 3]) == 3 and blocks.available == 4
    blocks.take(2)
    assert blocks.known([1, 2, 3]) == 2, "the end of a prompt goes first"
    blocks.take(2)
    assert blocks.known([1]) == 0 and blocks.available == 0


def test_a_block_with_two_holders_stays_until_both_are_gone() -> None:
    blocks = KvBlocks(2, shares=True)
    learnt = filled(blocks, [1])
    blocks.hold([1])
    blocks.release(learnt, 0)
    assert blocks.available == 1
    blocks.release([1], 0)
    assert blocks.available == 2


def test_the_block_used_last_is_forgotten_last() -> None:
    blocks = KvBlocks(2, shares=True)
    for one in (1, 2):
        blocks.release(filled(blocks, [one]), 0)
    blocks.hold([1])
    blocks.release([1], 0)
    blocks.take(1)
    assert (blocks.known([1]), blocks.known([2])) == (1, 0)


def test_nothing_is_found_where_nothing_is_shared() -> None:
    blocks = KvBlocks(4, shares=False)
    assert filled(blocks, [1, 2]) == [] and blocks.known([1]) == 0
    blocks.release([], 2)
    assert blocks.available == 4
