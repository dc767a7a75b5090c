"""A real Ceph of this machine.

`layout`, `configuration`, `daemons` (starts, asks and ends Ceph's programs), `monitor_client`, `bootstrap` (first
creation), `cluster` (up, down, lakes), `status` and `rbd` (block devices).
"""
