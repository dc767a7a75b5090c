"""The `penstock` command: one module per noun; parses, calls, prints, nothing else."""
