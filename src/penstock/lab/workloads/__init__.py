"""The workloads: `base` (their contract) and `registry` (their names); `tpcds`, `concurrency`, `sort`, `pipelines`,
`throughput`, `overhead`, `objects`, `blocks`.
"""
