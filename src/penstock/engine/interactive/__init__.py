"""Interactive clusters.

`sessions` (Spark Connect, JDBC and SQL), `session_server` (the driver of a session), `history` (Spark's history
server) and `history_watchdog` (ends it when idle).
"""
