"""Applications of this folder run on a Java home with minimal start-up cost."""

from __future__ import annotations

from tests.support.quick_java import archives_tried, java_home, quick_java_machines

__all__ = ["archives_tried", "java_home", "quick_java_machines"]
