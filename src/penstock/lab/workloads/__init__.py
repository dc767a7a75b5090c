"""The workloads: `base` is their contract, `registry` has their names, `options` reads their options.

`tpcds` (its data is `tpcds_data`, other engines run its queries as `statements`), `concurrency`, `sort`, `pipelines`,
`throughput`, `overhead`, `objects` and `blocks` each hold some of them.
"""
