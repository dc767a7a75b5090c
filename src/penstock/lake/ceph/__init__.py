"""A real Ceph on one machine: monitor, manager, OSDs and S3 gateways, as plain processes of its own packages."""
