"""What was asked: the schema, the layers that fill it in, and which of them said what."""
