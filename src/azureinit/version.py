"""The version, for everything that is built; fakeazure, which imports nothing of ours, says it once more."""

VERSION = "0.1.0"
ANSWERS_FOR = "0.1.1"  # the version of Azure's own azure-init that this one takes the place of
