"""Interactive clusters.

`sessions` (Spark Connect and SQL), `connect_server` (the driver of a session), `history` (Spark's history server) and
`history_watchdog` (ends it when idle).
"""
