"""The container image: what is in it, how it is written without a container daemon, and what starts in it."""
