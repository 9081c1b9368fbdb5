"""The simulated Azure platform: its services, its media, its faults, and the ledger of all that happens."""
