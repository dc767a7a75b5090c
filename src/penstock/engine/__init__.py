"""The engine: one facade over records, supervisors and clusters.

`engine` (the facade), `supervisor_process` (a supervisor on its own), `dispatcher` (starts waiting applications, and
housekeeping), `preparation` (lake, catalog, settings, credentials), `submission`, `artifacts`, `uploads`, `webhooks`,
`tokens`, `installation`, `class_archives` and `catalog_service`. Decisions are in `policy`, state in `repository`, what
looks after one application in `supervision`, sessions and history in `interactive`, query engines in `engines`.
"""
