"""Routes of the API.

They are `applications`, `logs` (and other artifacts), `uploads`, `sessions`, `queues`, `data` (tables, lakes),
`spark_ui`, `lab`, and `access` (tokens, audit, page grants).
"""
