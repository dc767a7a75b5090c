"""A real HDFS of this machine: `layout`, `servers` (jars, health), `cluster` (up, down, lakes) and `webhdfs`."""
