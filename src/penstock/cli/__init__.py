"""The `penstock` command.

`main` loads a command's module on first use. Shared are `options` (a cluster's size, such as `--executors`, becomes a
`model.ClusterSize` there), `output`, `foreground` and `target`. `catalog`, `lake` and `lab` are packages, since they
have many commands.
"""
