"""Penstock runs Apache Spark applications, each on its own throw-away cluster, over one shared data lake."""

__version__ = "0.1.0"
