"""Hyper-V key-value pools: the store, the provisioning report, the diagnostics, and what the records mean.

Usable alone: `Store(machine, timeout=5).upsert("key", "value")`.
"""
