"""The catalog on PostgreSQL.

`connection` parses addresses and pools connections; `server` is the embedded server, `database` that or an external
one. `metastore` creates Hive's tables, and `tables` reads them by SQL; `secrets` stores sealed secrets in the database.
"""
