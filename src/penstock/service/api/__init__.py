"""Routes of the API.

They are `applications`, `artifacts` (logs, uploads), `sessions`, `queues`, `data` (tables, lakes), `spark_ui`, `lab`,
and `access` (tokens, audit, page grants).
"""
