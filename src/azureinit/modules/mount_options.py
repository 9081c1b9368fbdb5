"""Mount options that name units of cloud-init, as many documents for Azure do: `x-systemd.requires=cloud-init.service`.

systemd does not mount a row that requires a unit which is not there, and without `nofail` the machine does not come up.
"""

from __future__ import annotations

STAGE = "azure-init-userdata-network.service"
AFTER = f"x-systemd.after={STAGE}"
DEPENDENCIES = ("x-systemd.requires=", "x-systemd.after=", "x-systemd.before=", "x-systemd.wanted-by=",
                "x-systemd.required-by=")  # fmt: skip
PEER_UNITS = frozenset(
    (
        "cloud-init-local.service", "cloud-init-main.service", "cloud-init.service", "cloud-init-network.service",
        "cloud-config.service", "cloud-config.target", "cloud-final.service", "cloud-init.target",
    )
)  # fmt: skip
# Without one of these, what starts before the stage waits for the mount.
LATE = ("nofail", "_netdev")


def for_own_units(options: str) -> str:
    """The same options, with the stage that makes the disks in place of cloud-init's units."""
    words = options.split(",")
    kept: list[str] = []
    for word in words:
        if not _names_peer(word):
            kept.append(word)
        elif word.startswith(DEPENDENCIES[:2]) and AFTER not in kept and any(late in words for late in LATE):
            kept.append(AFTER)
    return ",".join(dict.fromkeys(kept)) if kept != words else options


def _names_peer(word: str) -> bool:
    return word.startswith(DEPENDENCIES) and word.partition("=")[2] in PEER_UNITS
