"""Box and whiskers with every sample beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab.report.plots.base import Figure, axis, box, layout


def starts(arms: Mapping[str, Sequence[float]]) -> Figure:
    """Every start of every arm as a dot beside its box."""
    return {
        "data": [
            box(
                index,
                arm,
                {f"<b>{arm}</b>, start {number}: {units.seconds(v)}": v for number, v in enumerate(values, start=1)},
                jitter=0.5,
                size=6,
                opacity=0.7,
            )
            for index, (arm, values) in enumerate(arms.items())
        ],
        "layout": layout(xaxis=axis("seconds", rangemode="tozero"), yaxis=axis(showgrid=False, autorange="reversed")),
    }
