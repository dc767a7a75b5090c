"""A real Ceph cluster on this machine.

`layout`, `configuration`, `daemons` (start, query and end Ceph's programs), `monitor_client`, `bootstrap` (first
creation), `cluster` (up, down, lakes), `status` and `rbd` (block devices).
"""
