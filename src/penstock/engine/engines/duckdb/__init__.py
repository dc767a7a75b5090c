"""DuckDB as an engine: its driver, its connection to the lake, and its views of the catalog's tables."""
