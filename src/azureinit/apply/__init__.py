"""Applying a plan: carrying out its actions and journaling them."""
