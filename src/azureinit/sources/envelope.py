"""The sealed envelope that certificates travel in: a key made to receive it, and openssl to open it.

No private key ever lies in a file or on a command line: keys come and go through pipes. What openssl must find by
name, the public half and the sealed envelope, lies in a directory of our own for as long as it takes.
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from azureinit.errors import SubprocessFailed, ToolMissing
from azureinit.record import Record, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.machine import Machine

PLACE = "/run/azure-init"
TOOL = "openssl"
SLOWEST = 60.0  # seconds a single openssl may take
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
# FIPS machines fail at the checksum, OpenSSL 3 at what only the oldest hosts still use.
OPENINGS = ((), ("-nomacver",), ("-legacy",))
PRIVATE = "PRIVATE KEY"


class Transport(Record):
    """The pair that an envelope is sealed for: new each time, gone with us."""

    certificate: str
    key: Secret

    @property
    def one_line(self) -> str:
        """As a header carries it."""
        return body_of(self.certificate)


def check_tool(machine: Machine) -> None:
    if machine.find(TOOL) is None:
        told = f"{TOOL} is not installed: without it the certificates cannot be opened by which the media name keys"
        raise ToolMissing(told, hint=f"install {TOOL}", command=TOOL)


def make_transport(machine: Machine, *, deadline: float) -> Transport:
    blocks = dict(pem_blocks(_openssl(machine, *MAKE, stdin=REQUEST, deadline=deadline)))
    if "CERTIFICATE" not in blocks or PRIVATE not in blocks:
        raise SubprocessFailed("openssl req made no certificate", command="openssl")
    return Transport(certificate=blocks["CERTIFICATE"], key=Secret(blocks[PRIVATE]))


def open_envelope(machine: Machine, envelope: bytes, transport: Transport, *, deadline: float) -> Secret:
    """The certificates and private keys inside, as openssl lists them."""
    bag = _decrypt(machine, envelope, transport, deadline=deadline).reveal()
    failures = []
    for opening in OPENINGS:
        arguments = ("pkcs12", "-nodes", "-passin", "pass:", *opening)  # the password is empty, and no secret
        try:
            return Secret(_openssl(machine, *arguments, stdin=bag, deadline=deadline))
        except SubprocessFailed as error:
            failures.append(error)
    raise failures[0]


def _decrypt(machine: Machine, envelope: bytes, transport: Transport, *, deadline: float) -> Secret:
    recipient, sealed = (f"{PLACE}/transport.{machine.pid}.{kind}" for kind in ("pem", "cms"))
    names = ("-in", machine.real(sealed), "-recip", machine.real(recipient), "-inkey", "/dev/stdin")
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


def _clear(machine: Machine) -> None:
    """What a run that died left here."""
    for name in machine.names(PLACE) or ():
        kind, _, rest = name.lstrip(".").partition(".")
        pid = rest.partition(".")[0]
        if kind == "transport" and pid.isdigit() and not machine.is_another(int(pid)):
            machine.remove(f"{PLACE}/{name}")


def public_half(machine: Machine, key: str, *, deadline: float) -> bytes | None:
    """SubjectPublicKeyInfo of a private key in PEM; None where openssl makes nothing of it."""
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
    """Label and whole text of each; what stands between them is commentary."""
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
    """What base64 says, white space aside; None where it is none."""
    letters = "".join(text.split()).encode("ascii", "replace")
    try:
        data = a2b_base64(letters)
    except Error:
        return None
    # Decoding skips what it does not know; only what comes back the same was base64.
    return data if b2a_base64(data, newline=False) == letters else None
