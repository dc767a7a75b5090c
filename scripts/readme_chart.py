#!/usr/bin/env python3
"""Draw docs/images/against-plain.svg, the README's chart, from the table of that comparison in docs/results.md.

    readme_chart.py            write the chart
    readme_chart.py --print    print it instead

A unit test compares the chart in the tree with the table, so that neither changes without the other.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results.md"
CHART = ROOT / "docs" / "images" / "against-plain.svg"

HEADING = "TPC-DS against plain Spark"
SUBTITLE = "104 TPC-DS queries at scale 1, the same tables and sizes: seconds, median and range"
SOURCE = f"docs/results.md: “{HEADING}”, with command, machine and date"
ROW = re.compile(
    r"^\| 104 queries, s \| (?P<plain>[^|]+) \| (?P<penstock>[^|]+) \| \*\*(?P<ratio>[\d.]+)\*\* \|$",
    re.MULTILINE,
)
TIMES = re.compile(r"(?P<median>[\d.]+) \((?P<low>[\d.]+)–(?P<high>[\d.]+)\)")

LEFT, WIDTH, BAR, GAP, TOP = 150, 470, 34, 16, 76
PLAIN_COLOUR, PENSTOCK_COLOUR, INK, QUIET = "#9aa5b1", "#0b6fad", "#16202a", "#5b6875"


@dataclass(frozen=True)
class Times:
    """Seconds of one arm: the median of its rounds, the least and the largest."""

    median: float
    low: float
    high: float


def comparison(results: str) -> tuple[Times, Times, str]:
    """Return the times of plain Spark and of Penstock, and their ratio as it is printed.

    Raises:
        ValueError: The page has no such table.
    """
    section = results.partition(f"## {HEADING}\n")[2].partition("\n## ")[0]
    row = ROW.search(section)
    if row is None:
        raise ValueError(f"docs/results.md has no table of times under “{HEADING}”")
    return _times(row["plain"]), _times(row["penstock"]), row["ratio"]


def _times(cell: str) -> Times:
    found = TIMES.fullmatch(cell)
    if found is None:
        raise ValueError(f"the cell is not a median with its range: {cell}")
    return Times(float(found["median"]), float(found["low"]), float(found["high"]))


def chart(results: str) -> str:
    """Return the chart as SVG, with system fonts and no external references."""
    plain, penstock, ratio = comparison(results)
    scale = WIDTH / max(plain.high, penstock.high)
    arms = (("plain Spark", plain, PLAIN_COLOUR), ("Penstock", penstock, PENSTOCK_COLOUR))
    bars = "\n".join(
        _bar(TOP + place * (BAR + GAP), name, times, colour, scale) for place, (name, times, colour) in enumerate(arms)
    )
    height = TOP + len(arms) * (BAR + GAP) + 24
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}"
  role="img" font-family="system-ui, sans-serif" font-size="15">
<title>104 TPC-DS queries take {ratio} of plain Spark's time</title>
<rect width="720" height="{height}" fill="#ffffff"/>
<text x="20" y="36" font-size="24" font-weight="700" fill="{INK}">{ratio} of plain Spark’s time</text>
<text x="20" y="58" fill="{QUIET}">{SUBTITLE}</text>
{bars}
<text x="20" y="{height - 10}" font-size="12" fill="{QUIET}">{SOURCE}</text>
</svg>
"""


def _bar(y: int, name: str, times: Times, colour: str, scale: float) -> str:
    middle = y + BAR / 2
    low, high, end = (LEFT + seconds * scale for seconds in (times.low, times.high, times.median))
    return (
        f'<text x="{LEFT - 12}" y="{middle + 5:.0f}" text-anchor="end" fill="{INK}">{name}</text>\n'
        f'<rect x="{LEFT}" y="{y}" width="{times.median * scale:.1f}" height="{BAR}" fill="{colour}"/>\n'
        f'<path d="M{low:.1f} {middle:.0f}H{high:.1f}M{low:.1f} {middle - 6:.0f}v12M{high:.1f} {middle - 6:.0f}v12" '
        f'stroke="{INK}" stroke-width="1.5"/>\n'
        f'<text x="{max(end, high) + 10:.1f}" y="{middle + 5:.0f}" fill="{INK}">{times.median:.0f} s</text>'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the chart instead of writing it")
    drawn = chart(RESULTS.read_text(encoding="utf-8"))
    if parser.parse_args().only_print:
        sys.stdout.write(drawn)
    else:
        CHART.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
