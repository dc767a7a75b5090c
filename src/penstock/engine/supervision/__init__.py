"""Supervision of applications, below the engine.

`supervisor` (carries out one application's instructions) and `detached` (processes that do so and outlive the one that
started them).
"""
