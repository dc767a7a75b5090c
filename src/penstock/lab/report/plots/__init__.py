"""The plots, as Plotly figures in plain data: one module per kind, `base` for what they share."""

from penstock.lab.report.plots.base import BAD, QUIET, SERIES, Figure, axis, box, layout, log_axis
from penstock.lab.report.plots.boxes import starts
from penstock.lab.report.plots.queries import cumulative, distribution, query_bars, shares
from penstock.lab.report.plots.ratios import ratios

__all__ = [
    "BAD",
    "QUIET",
    "SERIES",
    "Figure",
    "axis",
    "box",
    "cumulative",
    "distribution",
    "layout",
    "log_axis",
    "query_bars",
    "ratios",
    "shares",
    "starts",
]
