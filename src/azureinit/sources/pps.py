"""The type of a pre-provisioned VM, from what the media and IMDS say. Pure. Only a boot that hears of one loads this.

What IMDS says outranks the media if it is `None`, or a word that is no type, in whatever case it is written: the VM is
then provisioned as usual, with a warning, and never waits for a customer who may not come. Otherwise either source
decides: Savable before PreprovisionedOSDisk before Running.
"""

from __future__ import annotations

from azureinit.config.model import shown
from azureinit.errors import ImdsInvalid

RUNNING, SAVABLE, OS_DISK = "Running", "Savable", "PreprovisionedOSDisk"
UNKNOWN = "Unknown"  # in reports: the marker does not tell the type
TYPES = (SAVABLE, OS_DISK, RUNNING)  # in order of precedence
KEY = "extended.compute.ppsType"


def is_none(told: str | None) -> bool:
    return told is None or told.lower() == "none"


def media_type(told: str | None, *, flag: bool) -> str | None:
    """What the media say: their type, or Running where they have only the flag."""
    return told if told in TYPES else RUNNING if flag else told


def decide(*, imds: str | None, media: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The type, or None, and warnings."""
    told = {name: value for name, value in (("IMDS says", imds), ("the media say", media)) if not is_none(value)}
    odd = [f"{name} {shown(value or '')!r}, which is no type" for name, value in told.items() if value not in TYPES]
    if imds is not None and imds not in TYPES:
        said = (
            [f"IMDS says 'None', the media say {shown(media or '')!r}"] if is_none(imds) and not is_none(media) else odd
        )
        return None, tuple(f"pps_type: {text}: this VM is provisioned as usual" for text in said)
    found = next((one for one in TYPES if one in told.values()), None)
    if imds in TYPES and media in TYPES and imds != media:
        odd.append(f"IMDS says {imds!r}, the media say {media!r}")
    then = f"using {found!r}" if found else "this VM is provisioned as usual"
    return found, tuple(f"pps_type: {text}: {then}" for text in odd)


def check_reused(told: str | None) -> None:
    """After a customer has got the VM, IMDS must not describe one of a pool any more."""
    if not is_none(told):
        raise ImdsInvalid(
            f"IMDS still describes a VM of a pool: ppsType is {shown(told or '')!r}",
            reason=f"invalid IMDS metadata for key={KEY}",
            key=KEY,
            value=shown(told or ""),
            type=type(told).__name__,
        )
