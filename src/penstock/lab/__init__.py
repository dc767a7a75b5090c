"""The lab: benchmarks of Penstock, plain Spark and object stores, recorded sample by sample.

`labfile` and `experiment` define what is measured, `runner` measures it (`session`, `environment`, `launchers`,
`conditions`, `metering`, `progress`), `records` stores every sample, `answers` and `validation` check results.
`workloads` holds the workloads, `loadgen` generates load on a store, `analysis` computes, `report` renders.
"""
