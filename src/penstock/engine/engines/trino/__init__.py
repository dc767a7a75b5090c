"""Trino as an engine: its installation on this machine, its server, its types and statements, and its driver."""
