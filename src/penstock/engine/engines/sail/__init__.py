"""Sail as an engine: its driver, and what it may do with each statement of a script."""
