"""Sail as an engine: its driver, what it may do with each statement of a script, and whom it serves."""
