"""Dedicated clusters: one contract, one backend per kind of place.

`backend` is the contract, and `choice` selects a home's backend. `local` runs clusters on this machine, each under the
process supervisor `shim`, with settings and commands from `settings` and resources from `machine`. `kubernetes` runs
clusters as pods.
"""
