"""The configuration: its schema, its layers, and the origin of each value."""
