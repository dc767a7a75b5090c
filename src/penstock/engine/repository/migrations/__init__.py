"""The schema of the engine's records, release by release. `schema.py` runs it only where the version differs."""

HEAD = "0008"
"""The newest version; a test compares it with the scripts."""
