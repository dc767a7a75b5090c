"""Java on this machine.

`jvm` (commands and trust store of every JVM), `tool` (one short run of a program), `cds` (class-data archives, which
halve a JVM's start-up time) and `cds_training` (the application from which the archives are recorded).
"""
