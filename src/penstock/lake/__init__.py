"""Lakes and their stores.

`model` (contracts and key layout), `registry` (lakes by name), `credentials` and `sts`, `s3` (a client for small jobs),
`probes` and `check` (a store's capabilities), `settings` (Spark's), `stores` and `embedded` (this machine's), `sweep`
(leftovers of killed jobs), `export` (a lake for Kubernetes).
"""
