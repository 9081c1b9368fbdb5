"""The version. It repeats the agent's: neither package imports the other."""

VERSION = "0.1.0"
