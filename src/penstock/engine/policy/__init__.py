"""Pure decisions of the engine.

`lifecycle` (states, instructions, retries), `observation` (a cluster's state as events), `admission` (room and
refusals) and `fairness` (queues, quotas, order).
"""
