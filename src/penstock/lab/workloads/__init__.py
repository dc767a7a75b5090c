"""The workloads: `base` is their contract, `registry` has their names, `options` reads their options.

`tpcds`, `concurrency`, `sort`, `pipelines`, `throughput`, `overhead`, `objects` and `blocks` each hold some of them.
"""
