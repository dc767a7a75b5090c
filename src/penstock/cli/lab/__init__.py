"""`penstock lab`: measure the field's workloads, look back at what was measured, and compare.

`commands` measures queries and pipelines, `storage` measures stores; `workloads` makes a command of a workload, with
the `options` that several share. `measure` runs experiments, `scale` finds how cost and time grow, `reports` lists and
compares runs, `demo` shows it all once.
"""

from penstock.cli.lab import commands, measure, reports, scale, storage
from penstock.cli.lab.app import app

__all__ = ["app", "commands", "measure", "reports", "scale", "storage"]
