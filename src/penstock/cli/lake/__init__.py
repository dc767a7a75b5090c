"""`penstock lake`: `lakes` (registry, objects), `maintenance` (export, sweep), `ceph` and `hdfs` (stores of this
machine).
"""
