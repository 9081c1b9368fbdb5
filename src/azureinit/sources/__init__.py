"""What the platform says: each source read alone, then merged with provenance."""
