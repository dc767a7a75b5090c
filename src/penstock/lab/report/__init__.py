"""Reports made from raw samples alone."""
