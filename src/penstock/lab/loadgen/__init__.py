"""The load generator for object stores.

`workload` and `cosbench` define the load, `schedule` the order of requests, `transfer` sends them through libcurl,
`processes` runs workers; `statistics` and `results` count, and `null_store` measures the generator's own ceiling.
"""
