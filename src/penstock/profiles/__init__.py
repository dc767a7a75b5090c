"""Spark settings with their reasons.

`layers` resolves layers of settings; `base`, `s3a`, `workloads` and `variants` are the layers themselves. `known` lists
the settings that Spark declares; `rules` and `check` report problems of a user's settings.
"""
