"""What the machine is: read, never changed."""
