"""Programs that tests start as processes of their own: applications of Spark, and clients of other libraries."""

from pathlib import Path

PROGRAMS = Path(__file__).parent
