"""`penstock lab`: measure standard workloads, report and compare runs.

`app` has a command for each workload, which `commands` generates from its suite, with the shared `options`. `measure`
runs experiments, `scale` measures how cost and time grow, `reports` lists and compares runs, `demo` is an end-to-end
demonstration.
"""

from penstock.cli.lab import commands, measure, reports, scale
from penstock.cli.lab.app import app

__all__ = ["app", "commands", "measure", "reports", "scale"]
