"""Contents that follow from name, size and offset, and verification that detects every mix-up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.loadgen.workload import PERIOD, Content

CONTENT = Content(seed=1)
PLACES = st.integers(0, PERIOD - 1)


def reference(place: int, offset: int, length: int) -> bytes:
    return bytes(CONTENT.block[(place + offset + number) % PERIOD] for number in range(length))


@given(PLACES, st.integers(0, 1 << 40), st.integers(0, 300))
def test_a_piece_is_the_block_repeated_without_end(place: int, offset: int, length: int) -> None:
    assert CONTENT.piece(place, offset, length) == reference(place, offset, length)


@given(PLACES, st.integers(0, 1 << 40), st.integers(1, 5000), st.data())
def test_a_flipped_bit_is_found_wherever_it_is(place: int, offset: int, length: int, data: st.DataObject) -> None:
    piece = bytearray(CONTENT.piece(place, offset, length))
    assert CONTENT.is_piece(place, offset, bytes(piece))
    piece[data.draw(st.integers(0, length - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not CONTENT.is_piece(place, offset, bytes(piece))


@given(PLACES, st.integers(9, 40), st.integers(1, 100))
def test_bytes_moved_by_sectors_pages_or_parts_are_found(place: int, power: int, times: int) -> None:
    moved = times << power
    assert not CONTENT.is_piece(place, 0, CONTENT.piece(place, moved, 4096))


def test_names_sizes_and_seeds_have_contents_of_their_own() -> None:
    places = {Content.place(name, size) for name in ("c1/o1", "c1/o2", "c2/o1") for size in (1000, 1001)}
    assert len(places) == 6
    assert Content(seed=2).piece(0, 0, 64) != CONTENT.piece(0, 0, 64)


def test_the_period_is_prime() -> None:
    assert all(PERIOD % divisor for divisor in range(2, 1025))
