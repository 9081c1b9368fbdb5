"""The version: the agent's, said here once more, for neither package imports the other."""

VERSION = "0.1.0"
