"""The life of an application: what to run, on what cluster, and what became of it."""
