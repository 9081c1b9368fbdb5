"""What one boot leaves for the next, in the data directory."""
