"""Doing it: the plan carried out and written down as it happens."""
