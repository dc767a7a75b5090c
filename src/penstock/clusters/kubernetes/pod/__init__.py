"""What runs inside the pods of a cluster, in Penstock's image."""
