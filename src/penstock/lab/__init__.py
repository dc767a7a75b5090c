"""Measured, not claimed: the field's workloads as ordinary applications, answers checked, raw samples kept."""
