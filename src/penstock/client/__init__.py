"""The Python client.

`client` (the public face), `connection` (requests, retries, errors), `remote` (the engine's contract for commands).
"""
