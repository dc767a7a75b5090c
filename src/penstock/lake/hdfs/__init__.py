"""A real HDFS on this machine: `layout`, `servers` (jars, health), `cluster` (up, down, lakes) and `webhdfs`."""
