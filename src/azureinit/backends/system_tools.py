"""Tools of the modules that write system files: certificate bundles, locales, keyboards, commands of the user."""

from __future__ import annotations

from azureinit.plan.actions import Run

UPDATE_SECS = 120.0
LOCALE_SECS = 300.0  # some locales take a second each, and the image may have many
NEW_CERTIFICATES = b"ca-certificates ca-certificates/trust_new_crts select no\n"
DEBCONF = "debconf-set-selections"
LOCALE_GEN, LOCALECTL, SETUP_KEYMAP = "locale-gen", "localectl", "setup-keymap"


def update_certificates(tool: str) -> Run:
    """Make the bundles of all certificates that are trusted now."""
    return Run(argv=(tool,), timeout=UPDATE_SECS)


def distrust_new_certificates() -> Run:
    """Have the package's next version add none of its own."""
    from azureinit.record import Secret

    return Run(argv=(DEBCONF, "-"), stdin=Secret(NEW_CERTIFICATES))


def generate_locales() -> Run:
    """Those of /etc/locale.gen."""
    return Run(argv=(LOCALE_GEN,), timeout=LOCALE_SECS)


def set_x11_keymap(*, layout: str, model: str, variant: str, options: str) -> Run:
    """Of the console, too: systemd-localed writes both."""
    return Run(argv=(LOCALECTL, "set-x11-keymap", layout, model, variant, options))


def setup_keymap(*, layout: str, variant: str) -> Run:
    return Run(argv=(SETUP_KEYMAP, layout, variant))


def run_command(words: tuple[str, ...], *, env: tuple[tuple[str, str], ...] = ()) -> Run:
    """A command that customData gives."""
    return Run(argv=words, env=env, timeout=UPDATE_SECS)
