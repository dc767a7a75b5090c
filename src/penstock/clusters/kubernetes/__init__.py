"""Clusters on Kubernetes.

`backend` implements the contract of every backend, `cluster` observes one application's pods, `target` reads the
cluster file, and `client` speaks to the API server. `plan`, `layout` and `manifest` describe the objects to create;
`resources` and `preflight` check them against quotas, nodes and permissions; `informer` and `pod_status` watch pods and
interpret their status; `sidecar_client` sends requests into a pod. `pod` holds the programs of the containers.
"""
