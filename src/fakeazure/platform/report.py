"""The provisioning report, `result=error|reason=…|…`, in health reports and in the key-value pool."""

from __future__ import annotations

CLOUD_INIT = "agent=Cloud-Init/"  # cloud-init quotes with single quotes


def parse_report(description: str) -> dict[str, str]:
    """The fields by name; empty for any other text."""
    pairs = [part.partition("=") for part in split_report(description)]
    return {key: value for key, _, value in pairs} if pairs and pairs[0][0] == "result" else {}


def split_report(description: str) -> list[str]:
    """The fields between the pipes. A field may be quoted; a quote inside is doubled."""
    quote = "'" if CLOUD_INIT in description else '"'
    parts: list[str] = [""]
    quoted = False
    position = 0
    while position < len(description):
        character = description[position]
        if quoted and description.startswith(quote * 2, position):
            parts[-1] += quote
            position += 1
        elif character == quote and (quoted or not parts[-1]):
            quoted = not quoted
        elif character == "|" and not quoted:
            parts.append("")
        else:
            parts[-1] += character
        position += 1
    return parts
