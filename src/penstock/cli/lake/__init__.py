"""The `penstock lake` commands.

`lakes` (registry, objects), `maintenance` (export, sweep), `ceph` and `hdfs` (stores on this machine).
"""
