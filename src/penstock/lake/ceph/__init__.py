"""A real Ceph of this machine: `layout`, `configuration`, `daemons` (programs started, asked and ended),
`monitor_client`, `bootstrap` (first creation), `cluster` (up, down, lakes), `status` and `rbd` (block devices).
"""
