"""What runs against the platform: a command on this host, a container, or a QEMU virtual machine."""
