"""The schema of the engine's records, release by release. Run by `records.py`, only where the version differs."""

HEAD = "0007"
"""The newest version; a test holds it to the scripts."""
