"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no defect: a test that takes 300 ms once says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
