"""Events and their listeners."""
