"""The `penstock` command.

`main` loads a command's module on first use; `options`, `output`, `foreground` and `target` are shared. `lake` and
`lab` are packages, since they have many commands.
"""
