"""The catalog on PostgreSQL: `connection`, `server` (embedded), `database` (embedded or external), `metastore` (Hive's
tables), `tables` (read by SQL) and `secrets` (sealed in the database).
"""
