"""Java on this machine: `jvm` (commands and trust store of every JVM), `cds` (class-data archives, which halve the
start of one) and `cds_training` (the application that an archive is recorded from).
"""
