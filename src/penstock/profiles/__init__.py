"""Spark and Hadoop settings as data: every value with its reason and its source beside it."""
