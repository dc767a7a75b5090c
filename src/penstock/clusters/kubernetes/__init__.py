"""Dedicated clusters on Kubernetes: one driver pod per application, made through the API; its executors by Spark's own
scheduler."""
