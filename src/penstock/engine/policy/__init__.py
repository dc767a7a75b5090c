"""Decisions of the engine, pure: `lifecycle` (states, instructions, retries), `observation` (a cluster's signs as
events), `admission` (room and refusals) and `fairness` (queues, quotas, order).
"""
