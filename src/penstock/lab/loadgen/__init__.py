"""The load generator: `workload` and `cosbench` (what is asked), `schedule` (which request when), `transfer` (libcurl),
`processes`, `statistics`, `results`, and `null_store` (the generator's own ceiling).
"""
