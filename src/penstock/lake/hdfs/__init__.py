"""HDFS as the baseline: a NameNode and DataNodes of this machine, and a client for small jobs."""
