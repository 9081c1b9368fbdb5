"""The platform's metadata: each source is read separately, then merged with provenance."""
