"""The engine's state in PostgreSQL.

`schema` (tables, migrations), `applications` (rows and transitions), `queues` (instances, and the input of scheduling),
`claims` (locks and notifications), `listing` (reading, keyset pages), `audit` (append-only rows), `pending_artifacts`,
`retention` (pruning) and `backup`; `repositories` opens those of one database.
"""
