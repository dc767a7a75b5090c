"""The engine: one facade over records, supervisors and clusters.

`engine` (the facade), `supervisor` (carries out one application's instructions), `detached_supervisors` (processes of
their own, which `prefork_server` starts), `dispatcher` (starts waiting applications, and housekeeping), `preparation`
(lake, catalog, settings, credentials), `submission`, `artifacts`, `uploads`, `webhooks`, `tokens`, `installation` and
`class_archives`. Decisions are in `policy`, state in `repository`, sessions and history in `interactive`.
"""
