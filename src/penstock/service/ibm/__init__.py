"""IBM Analytics Engine's APIs.

`bodies` are the requests, which `translation` and `stores` turn into the engine's applications; `instances` have a
stored `configuration`; `applications` and `instances` share `operations` and `responses`.
"""
