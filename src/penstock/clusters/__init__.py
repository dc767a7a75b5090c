"""Where a dedicated cluster comes from: one contract, one backend per kind of place."""
