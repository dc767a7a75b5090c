"""Iceberg's REST catalog: who may do what in it (`catalog`), and temporary keys for its clients (`credentials`).

Its routes are in `penstock.service.api.iceberg`.
"""
