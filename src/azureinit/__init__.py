"""Azure provisioning for Linux, as a library. Nothing is imported until it is used: every boot imports this file."""

__all__ = [
    "Config",
    "Machine",
    "Provision",
    "PublicKey",
    "Secret",
    "User",
    "configure_sshd",
    "create_user",
    "install_ssh_keys",
    "lock_user",
    "query_imds",
    "read_media",
    "report_failure",
    "report_in_progress",
    "report_ready",
    "set_hostname",
    "set_user_password",
    "vm_id",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"azureinit has no {name}")
    from azureinit import library

    return getattr(library, name)
