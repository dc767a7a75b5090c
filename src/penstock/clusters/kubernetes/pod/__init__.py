"""Programs of a pod's containers, in Penstock's image: `driver`, `executor`, and `sidecar`, which outlives both.

`scratch` provides the working directory of driver and executors.
"""
