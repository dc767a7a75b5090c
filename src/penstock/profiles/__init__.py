"""Spark settings with their reasons: `layers` (resolution), `base`, `s3a`, `workloads` and `variants` (the layers),
`known` (settings Spark declares), `rules` and `check` (findings about a user's settings).
"""
