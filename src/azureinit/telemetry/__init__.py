"""Who listens: events and their listeners."""
