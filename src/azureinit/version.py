"""The version, for everything that is built; fakeazure, which imports nothing of ours, says it once more."""

VERSION = "0.1.0"
