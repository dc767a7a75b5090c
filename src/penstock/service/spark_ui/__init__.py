"""Spark's own pages, on an origin of their own (`pages`), and who may see them (`access`).

The routes of links to them are in `penstock.service.api.spark_ui`.
"""
