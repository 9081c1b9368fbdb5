"""Reports to the platform: exactly one verdict for each boot."""
