"""Plots of what was done in every second."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import units
from penstock.lab.analysis import Seconds
from penstock.lab.report.plots.base import DASHES, SERIES, Figure, axis, layout

MB = 1e6


def over_time(lines: Sequence[Seconds]) -> Figure:
    """A line per series, all of them moving bytes or all of them not; repetitions of a series share its colour."""
    names = list(dict.fromkeys(line.series for line in lines))
    moves_bytes = lines[0].moves_bytes
    scale = MB if moves_bytes else 1
    write = units.rate if moves_bytes else units.operations
    data: list[Figure] = []
    for line in lines:
        index = names.index(line.series)
        first = not any(entry["name"] == line.series for entry in data)
        alone = len(names) == 1 and first
        seconds = range(line.first, line.first + len(line.amounts))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": line.series,
                "legendgroup": line.series,
                "showlegend": first,
                "x": list(seconds),
                "y": [amount / scale for amount in line.amounts],
                "line": {"color": SERIES[index % len(SERIES)], "width": 1.6, "dash": DASHES[index % len(DASHES)]},
                "opacity": 1 if first else 0.45,
                **({"fill": "tozeroy", "fillcolor": "var(--series-1-soft)"} if alone else {}),
                "hovertext": [
                    f"<b>{line.series}</b>, repetition {line.repetition}, second {second}<br>{write(amount)}"
                    for second, amount in zip(seconds, line.amounts, strict=True)
                ],
                "hoverinfo": "text",
            }
        )
    short = max(line.first + len(line.amounts) for line in lines) <= 10
    return {
        "data": data,
        "layout": layout(
            showlegend=len(names) > 1,
            margin={"l": 56, "r": 12, "t": 28, "b": 44},
            xaxis=axis(
                "seconds since the start", rangemode="tozero", tickformat=",d", **({"dtick": 1} if short else {})
            ),
            yaxis=axis("MB/s" if moves_bytes else "operations/s", rangemode="tozero"),
        ),
    }
