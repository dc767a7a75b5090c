"""The engine: `engine` (the facade), `supervisor` (carries out one application's instructions), `dispatcher` (starts
what waits, keeps house), `launch` (lake, catalog, settings, credentials), `validation`, `artifacts`, `retention`,
`webhooks`, `tokens` and `installation`. Decisions are in `policy`, state in `repository`, sessions and history in
`interactive`.
"""
