"""The plots, as Plotly figures in plain data: one module per kind, `base` for what they share."""

from penstock.lab.report.plots.base import BAD, QUIET, SERIES, Figure, axis, box, layout, log_axis
from penstock.lab.report.plots.boxes import starts
from penstock.lab.report.plots.devices import busy_over_time, rates_over_time
from penstock.lab.report.plots.latency import percentiles, phase
from penstock.lab.report.plots.measures import Write, bars, curves, deviations
from penstock.lab.report.plots.price import stacked_costs
from penstock.lab.report.plots.queries import cumulative, distribution, query_bars, shares
from penstock.lab.report.plots.rates import over_time
from penstock.lab.report.plots.ratios import ratio_groups, ratios
from penstock.lab.report.plots.scaling import throughput, time_against_cost
from penstock.lab.report.plots.stores import height, ratio_bars
from penstock.lab.report.plots.users import timeline, user_boxes

__all__ = [
    "BAD",
    "QUIET",
    "SERIES",
    "Figure",
    "Write",
    "axis",
    "bars",
    "box",
    "busy_over_time",
    "cumulative",
    "curves",
    "deviations",
    "distribution",
    "height",
    "layout",
    "log_axis",
    "over_time",
    "percentiles",
    "phase",
    "query_bars",
    "rates_over_time",
    "ratio_bars",
    "ratio_groups",
    "ratios",
    "shares",
    "stacked_costs",
    "starts",
    "throughput",
    "time_against_cost",
    "timeline",
    "user_boxes",
]
