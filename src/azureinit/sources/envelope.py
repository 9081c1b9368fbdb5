"""The CMS envelope that certificates are sent in: a transport key to receive it, and openssl to decrypt it.

Private keys are never in a file or on a command line, only in pipes. The transport certificate and the envelope, which
openssl reads by name, are in a private directory while it runs.
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from azureinit.errors import SubprocessFailed, ToolMissing
from azureinit.machine.trees import remove_tree
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

PLACE = "/run/azure-init"
TOOL = "openssl"
SLOWEST = 60.0  # seconds for one run of openssl
LONGEST_COMPLAINT = 300
# The envelope names its recipient by key identifier, so the certificate must have one.
REQUEST = b"""[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = LinuxTransport
[extensions]
subjectKeyIdentifier = hash
"""
MAKE = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "730", "-config", "/dev/stdin")
# FIPS mode refuses the checksum's algorithm; OpenSSL 3 refuses the cipher of the oldest hosts.
OPENINGS = ((), ("-nomacver",), ("-legacy",))
PRIVATE = "PRIVATE KEY"


class Transport(Record):
    """The transport key pair that an envelope is encrypted for: new for each run, kept in memory only."""

    certificate: str
    key: Secret

    @property
    def one_line(self) -> str:
        """The certificate in the form of the request header."""
        return body_of(self.certificate)


def check_tool(machine: Machine) -> None:
    if machine.find(TOOL) is None:
        told = f"{TOOL} is not installed: it is needed to decrypt the certificates by which the media name keys"
        raise ToolMissing(told, hint=f"install {TOOL}", command=TOOL)


def make_transport(machine: Machine, *, deadline: float) -> Transport:
    blocks = dict(pem_blocks(_openssl(machine, *MAKE, stdin=REQUEST, deadline=deadline)))
    if "CERTIFICATE" not in blocks or PRIVATE not in blocks:
        raise SubprocessFailed("openssl req made no certificate", command="openssl")
    return Transport(certificate=blocks["CERTIFICATE"], key=Secret(blocks[PRIVATE]))


def open_envelope(machine: Machine, envelope: bytes, transport: Transport, *, deadline: float) -> Secret:
    """The certificates and private keys inside, as openssl prints them."""
    bag = _decrypt(machine, envelope, transport, deadline=deadline).reveal()
    failures = []
    for opening in OPENINGS:
        arguments = ("pkcs12", "-nodes", "-passin", "pass:", *opening)  # the password is empty
        try:
            return Secret(_openssl(machine, *arguments, stdin=bag, deadline=deadline))
        except SubprocessFailed as error:
            failures.append(error)
    raise failures[0]


def _decrypt(machine: Machine, envelope: bytes, transport: Transport, *, deadline: float) -> Secret:
    recipient, sealed = (f"{PLACE}/transport.{machine.pid}.{kind}" for kind in ("pem", "cms"))
    names = ("-in", machine.real(sealed), "-recip", machine.real(recipient), "-inkey", "/dev/stdin")
    absent = machine.stat(PLACE) is None
    machine.make_dirs(PLACE, mode=0o700)
    _clear(machine)
    try:
        machine.write(recipient, transport.certificate.encode(), mode=0o600, sync=False)
        machine.write(sealed, envelope, mode=0o600, sync=False)
        command = ("cms", "-decrypt", "-inform", "DER", *names)
        return Secret(_openssl(machine, *command, stdin=transport.key.reveal(), deadline=deadline))
    finally:
        machine.remove(recipient)
        machine.remove(sealed)
        if absent and not machine.names(PLACE):  # `azure-init plan` leaves nothing behind
            remove_tree(machine, PLACE)


def _clear(machine: Machine) -> None:
    """Remove the files of a killed run."""
    for name in machine.names(PLACE) or ():
        kind, _, rest = name.lstrip(".").partition(".")
        pid = rest.partition(".")[0]
        if kind == "transport" and pid.isdigit() and not machine.is_another(int(pid)):
            machine.remove(f"{PLACE}/{name}")


def public_half(machine: Machine, key: str, *, deadline: float) -> bytes | None:
    """SubjectPublicKeyInfo of a PEM private key; None if openssl cannot read it."""
    try:
        return _openssl(machine, "pkey", "-pubout", "-outform", "DER", stdin=key.encode(), deadline=deadline)
    except SubprocessFailed:
        return None


def _openssl(machine: Machine, *arguments: str, stdin: bytes, deadline: float) -> bytes:
    timeout = min(SLOWEST, deadline - machine.clock.monotonic())
    ran = machine.run((TOOL, *arguments), stdin=stdin, timeout=timeout)
    if ran.status:
        told = "; ".join(ran.told.split("\n")[-2:])[-LONGEST_COMPLAINT:] or ran.ending
        raise SubprocessFailed(f"openssl {arguments[0]} failed: {told}", command="openssl", exit_status=ran.ending)
    return ran.out


def pem_blocks(data: bytes) -> list[tuple[str, str]]:
    """Label and text of each PEM block; text between blocks is skipped."""
    blocks: list[tuple[str, str]] = []
    label, lines = "", [""]
    for line in data.decode("ascii", "replace").split("\n"):
        line = line.rstrip("\r ")
        if line.startswith("-----BEGIN ") and line.endswith("-----"):
            label, lines = line[11:-5], []
        lines.append(line)
        if label and line == f"-----END {label}-----":
            blocks.append((label, "\n".join([*lines, ""])))
            label = ""
    return blocks


def body_of(block: str) -> str:
    return "".join(block.split("\n")[1:-2])


def decoded(text: str) -> bytes | None:
    """Decoded base64, with white space ignored; None if it is not base64."""
    letters = "".join(text.split()).encode("ascii", "replace")
    try:
        data = a2b_base64(letters)
    except Error:
        return None
    # Decoding skips invalid characters: only text that encodes back to itself was base64.
    return data if b2a_base64(data, newline=False) == letters else None
