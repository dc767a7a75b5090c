"""The `penstock` command: `main` loads one chapter of commands when it is called; `options`, `output`, `foreground` and
`target` are shared. `lake` and `lab` have commands enough for packages.
"""
