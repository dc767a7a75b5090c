"""Clusters on Kubernetes: `backend` (the contract), `cluster` (one application), `target` (the cluster file), `client`
(the API), `plan`, `layout` and `manifest` (what is created), `resources` and `preflight` (what may be), `informer`
and `pod_status` (what is), `sidecar_client` (requests into a pod). `pod` is what runs there.
"""
