"""Pure decisions of the engine.

`scheduling` (which application starts next: order, quotas), `admission` (whether one cluster fits), `lifecycle`
(states, instructions, retries) and `observation` (a cluster's state as events).
"""
