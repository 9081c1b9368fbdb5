"""The shipped scenario files, and the parser that turns a scenario file into a `Scenario`."""
