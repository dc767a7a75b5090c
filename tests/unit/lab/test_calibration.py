"""Equal arms have a false verdict, and intervals and bands miss the truth, no more often than reports promise.

`benchmarks/lab/calibration.py` prints the whole table. The seeds are fixed, so the rates are the same in every run.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lab import calibration
from benchmarks.lab.calibration import LEAST_COVERED, MOST_FALSE, NOISES, SPREADS


def dice() -> np.random.Generator:
    return np.random.default_rng(20261126)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("rounds", "iterations"), [(3, 3), (5, 3), (10, 1)])
def test_equal_arms_have_a_false_verdict_in_one_case_of_twenty_at_most(
    noise: str, rounds: int, iterations: int
) -> None:
    found = calibration.arms(dice(), 2000, noise, rounds, iterations)
    assert found["false"] <= MOST_FALSE
    assert found["covered"] >= LEAST_COVERED


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rounds", [5, 10])
def test_any_of_all_queries_has_a_false_verdict_in_one_case_of_twenty_at_most(noise: str, rounds: int) -> None:
    assert calibration.families(dice(), 100, noise, rounds)["any false"] <= MOST_FALSE


def test_a_difference_of_a_fifth_is_found_among_all_queries_in_ten_rounds() -> None:
    assert calibration.families(dice(), 100, "lognormal", 10)["20 % shown"] >= 0.9


@pytest.mark.parametrize("constants", calibration.CONSTANTS)
def test_the_bands_of_the_law_cover_it_at_measured_sizes_and_beyond(
    constants: tuple[float, float],
) -> None:
    found = calibration.bands(dice(), 200, calibration.law_of(*constants), 3, SPREADS["5 %"])
    assert {name: rate for name, rate in found.items() if name.endswith("cores") and rate < LEAST_COVERED} == {}
