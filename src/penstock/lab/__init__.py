"""The lab: `labfile` and `experiment` say what is measured, `runner` measures it (`session`, `environment`,
`launchers`, `conditions`, `metering`, `progress`), `records` keeps every sample, `answers` and `validation` check
results. `workloads` are what is measured, `loadgen` loads a store, `analysis` computes, `report` shows.
"""
