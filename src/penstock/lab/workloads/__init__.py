"""The lab's workloads.

`base` is their contract and `registry` lists their names; the workloads are in `tpcds`, `concurrency`, `sort`,
`pipelines`, `throughput`, `overhead`, `objects` and `blocks`.
"""
