"""The engine's state in PostgreSQL.

`schema` (tables, migrations), `applications` (rows and transitions), `queues` (turns and quotas), `claims` (locks and
notifications), `listing` (reading, keyset pages), `audit` (append-only rows), `pending_artifacts`, `retention`
(pruning) and `backup`; `repositories` opens those of one database.
"""
