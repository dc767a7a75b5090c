"""Sail as an engine: its driver, and the catalog in which it finds the lake's tables as Iceberg tables."""
