"""Lakes and their stores.

`model` (contracts and key layout), `registry` (lakes by name), `credentials` and `sts`, `s3` (a client for small jobs),
`checks` (a store's capabilities), `settings` (Spark's), `stores` and `embedded` (this machine's), `ceph`, `hdfs`,
`sweep` (leftovers of killed jobs), `clients` (a lake for other engines and for Kubernetes).
"""
