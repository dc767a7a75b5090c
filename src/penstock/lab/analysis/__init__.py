"""Analysis of samples, as pure functions: no chapter reads a file or a clock.

`samples` decides which samples count and groups them to measures; `verdicts` has medians, intervals and comparisons;
`latency` has percentiles and rates in every second; `resources` has processor time, memory, requests and devices;
`usl` fits the Universal Scalability Law; `cost` prices runs and stores; `stores` compares workloads by store.
"""
