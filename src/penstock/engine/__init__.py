"""The engine: `engine` (the facade), `supervisor` (carries out one application's instructions), `dispatcher` (starts
waiting applications, and housekeeping), `preparation` (lake, catalog, settings, credentials), `validation`,
`artifacts`, `retention`, `webhooks`, `tokens`, `installation` and `class_archives`. Decisions are in `policy`, state in
`repository`, sessions and history in `interactive`.
"""
