"""Whether anything must be done: pure functions from metadata, facts and configuration to steps."""
