"""The README's chart shows the figures of docs/results.md."""

from __future__ import annotations

import re

import pytest

from scripts.readme_chart import CHART, RESULTS, ROOT, Times, chart, comparison

PAGE = """## TPC-DS against plain Spark

| | plain | Penstock | ratio |
|---|---|---|---|
| 104 queries, s | 200.0 (190.0–220.0) | 100.0 (95.0–110.0) | **0.50** |

## Another
"""


def test_the_chart_of_the_readme_is_the_one_of_the_results() -> None:
    assert CHART.read_text(encoding="utf-8") == chart(RESULTS.read_text(encoding="utf-8"))


def test_the_readme_names_the_ratio_of_the_results() -> None:
    ratio = comparison(RESULTS.read_text(encoding="utf-8"))[2]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"![104 TPC-DS queries take {ratio} of plain Spark's time]" in readme


def test_times_and_ratio_are_read_from_the_table() -> None:
    assert comparison(PAGE) == (Times(200.0, 190.0, 220.0), Times(100.0, 95.0, 110.0), "0.50")


def test_bars_are_as_long_as_the_times() -> None:
    slow, fast = (float(width) for width in re.findall(r'<rect x="150" y="\d+" width="([\d.]+)"', chart(PAGE)))
    assert fast == pytest.approx(slow / 2, abs=0.1)


@pytest.mark.parametrize(
    "page", ["", PAGE.replace("TPC-DS against", "TPC-H against"), PAGE.replace(" (95.0–110.0)", "")]
)
def test_a_page_without_that_table_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match=r"has no table|not a median"):
        chart(page)
