"""Dedicated clusters: one contract, one backend per kind of place.

`backend` is the contract, and `choice` selects a home's backend. `local` runs clusters on this machine, each under the
process supervisor `shim`: `spark_settings` turns a size into Spark's settings and commands, and `machine` has the
resources. `kubernetes` runs clusters as pods.
"""
