"""Telling it: exactly one verdict a boot."""
