"""Every application: files that cannot match are never read, where a table has a skipping index."""

from __future__ import annotations

from penstock.profiles.setting import Layer, Setting

PREFIX = "spark.penstock.skipping."
"""Of settings that belong to users, unlike all else under `spark.penstock.`."""

_GUIDE = "docs/guide/skipping.md"

LAYER = Layer(
    "skipping",
    "files that cannot match are never read",
    (
        Setting(
            "spark.sql.extensions",
            "io.penstock.skipping.SkippingExtension",
            "Files that a filter or a join's keys rule out are not even opened. Only tables with an index gain, others "
            "are asked once whether they have one; the answers are the same with and without",
            _GUIDE,
        ),
        Setting(
            "spark.sql.queryExecutionListeners",
            "io.penstock.skipping.history.QueryHistory",
            "Which filters and joins came, and what they read, is what advice on a table's layout goes by; noted "
            "beside the queries, in one small object of the lake for each application",
            _GUIDE,
        ),
    ),
)

OFF = Layer(
    "no-skipping",
    "every file of the partitions that are left is read, as by Spark alone",
    (
        Setting(
            PREFIX + "enabled",
            "false",
            "The other arm of a comparison: the same cluster, settings and tables, and no file skipped",
            f"{_GUIDE}, 'Comparing'",
        ),
    ),
)
