"""The engine: one facade over records, supervisors and clusters.

`engine` (the facade), `supervisor` (carries out one application's instructions), `dispatcher` (starts waiting
applications and their supervisors, and housekeeping), `preparation` (lake, catalog, settings, credentials),
`submission`, `artifacts`, `webhooks`, `tokens`, `installation` and `class_archives`. Decisions are in `policy`, state
in `repository`, sessions and history in `interactive`.
"""
