"""The table catalog shared by all clusters: a PostgreSQL server and the Hive-metastore schema in it."""
