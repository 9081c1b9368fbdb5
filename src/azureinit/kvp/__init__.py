"""Hyper-V key-value pools: the store, the provisioning report, diagnostics, and their explanation.

Usable alone: `Store(machine, timeout=5).upsert("key", "value")`.
"""
