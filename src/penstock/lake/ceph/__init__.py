"""A real Ceph of this machine: `layout`, `configuration`, `control` (daemons), `monitor_client`, `bootstrap` (first
creation), `cluster` (up, down, lakes), `status` and `rbd` (block devices).
"""
