"""IBM Analytics Engine's APIs: `bodies` are translated into the engine's applications, with their `stores`; `instances`
and their `configuration`; `applications` and the `operations` they share; `responses`.
"""
