"""The commands about tables.

`tables` (`penstock tables`), `index` (`penstock index`) and `service` (`penstock catalog`, for other engines).
"""
