"""Tests of this folder start Spark, on JVMs with minimal start-up cost."""

from tests.support.quick_java import archives_tried, java_home, quick_java_machines

__all__ = ["archives_tried", "java_home", "quick_java_machines"]
