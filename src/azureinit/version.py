"""The version, for everything that is built. fakeazure, which does not import this package, repeats it."""

VERSION = "0.1.0"
ANSWERS_FOR = "0.1.1"  # the version of Azure's own azure-init that this one takes the place of
