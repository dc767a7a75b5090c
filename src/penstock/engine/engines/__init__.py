"""The engines that run applications, behind one contract.

`contract` says what an engine is, and `registry` names all. DuckDB runs as a program of its own, `duckdb_driver`: it
reads the catalog's tables as `duckdb_tables` says, and writes results as `duckdb_results` does.
"""
