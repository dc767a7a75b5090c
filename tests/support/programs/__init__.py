"""Programs that tests start as separate processes: Spark applications, and clients of other libraries."""

from pathlib import Path

PROGRAMS = Path(__file__).parent
