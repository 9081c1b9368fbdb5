"""Connections to hosts by name, with TLS where asked, for what customData fetches. No other boot loads this.

The addresses of a name are checked, and the connection goes to one of the checked addresses: a name that resolves to
another address a moment later reaches nothing. Certificates are verified against the system's store. Proxies that the
environment names are not used.
"""

from __future__ import annotations

import socket
import ssl

from azureinit.addresses import is_of_platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

MOST_ADDRESSES = 4  # of a name; each is tried in turn


class Refused(Exception):
    """The host must not be asked, or cannot be trusted. A second attempt would end in the same way."""


def resolve(host: str) -> tuple[str, ...]:
    """The addresses of a name, or the address itself."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "the name is malformed"
        raise OSError(0, f"the host's name cannot be resolved ({told})".replace("\n", " ")) from error
    return tuple(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))


def connect(machine: Machine, host: str, port: int, seconds: float, *, secure: bool) -> socket.socket:
    addresses = machine.resolve(host)
    for address in addresses:
        if is_of_platform(socket.inet_pton(_family(address), address)):
            raise Refused("the host's address is link-local or the platform's own")
    failure: OSError = OSError(0, "the host's name has no address")
    for address in addresses[:MOST_ADDRESSES]:
        connection = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect((address, port))
            return _secured(connection, host) if secure else connection
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
    raise failure


def _secured(connection: socket.socket, host: str) -> socket.socket:
    context = ssl.create_default_context()
    try:
        # Without close_notify the end of an answer that names no length may have been cut off.
        return context.wrap_socket(connection, server_hostname=host, suppress_ragged_eofs=False)
    except ssl.SSLCertVerificationError as error:
        raise Refused(f"the host's certificate cannot be trusted: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise OSError(0, f"TLS failed: {error.reason or error}".lower().replace("_", " ")) from error


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
