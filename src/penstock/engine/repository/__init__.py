"""The engine's state in PostgreSQL: `schema` (tables, migrations), `applications` (rows and transitions), `queues`
(turns and quotas), `claims` (locks and notifications), `listing` (keyset pages), `audit` (rows only added) and
`backup`.
"""
