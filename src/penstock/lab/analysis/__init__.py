"""What the samples say: medians, spreads, comparisons, percentiles. Pure functions; no file or clock is read here."""

from penstock.lab.analysis.comparison import Comparison, compare
from penstock.lab.analysis.effort import Role, core_seconds, core_seconds_per_gb, peak_memory, roles, usage
from penstock.lab.analysis.latency import Latency, latencies
from penstock.lab.analysis.measures import (
    Measure,
    Work,
    executor_cores,
    gb_per_core_hour,
    measured,
    measures,
    query_seconds,
    start_seconds,
)
from penstock.lab.analysis.rates import Seconds, seconds
from penstock.lab.analysis.samples import (
    all_right,
    answer_verdicts,
    checks,
    counted,
    failed_queries,
    natural,
    repetitions,
    warm_up,
    wrong_checks,
)
from penstock.lab.analysis.spread import Interval, Ratio, Spread, ratio, ratio_interval, spread

__all__ = [
    "Comparison",
    "Interval",
    "Latency",
    "Measure",
    "Ratio",
    "Role",
    "Seconds",
    "Spread",
    "Work",
    "all_right",
    "answer_verdicts",
    "checks",
    "compare",
    "core_seconds",
    "core_seconds_per_gb",
    "counted",
    "executor_cores",
    "failed_queries",
    "gb_per_core_hour",
    "latencies",
    "measured",
    "measures",
    "natural",
    "peak_memory",
    "query_seconds",
    "ratio",
    "ratio_interval",
    "repetitions",
    "roles",
    "seconds",
    "spread",
    "start_seconds",
    "usage",
    "warm_up",
    "wrong_checks",
]
