"""Tests of this folder start Spark: their Java machines start as cheaply as they can."""

from tests.support.quick_java import archives_tried, java_home, quick_java_machines

__all__ = ["archives_tried", "java_home", "quick_java_machines"]
