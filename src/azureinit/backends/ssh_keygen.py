"""Making host keys: by ssh-keygen."""

from __future__ import annotations

from azureinit.backends.labels import relabel
from azureinit.plan.actions import Declined, MakeDir, Remove, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.facts.host import Host
    from azureinit.facts.ssh import HostKey
    from azureinit.plan.actions import Action

TOOL = "ssh-keygen"
# With a small share of the processors, because sshd and customData begin at the same time. Where the kernel groups
# processes by session, `nice` counts only among those of one session: the session's own value is set, too. Not to the
# lowest values: beside commands that use all processors the key would not be made in time.
GIVE_WAY = (
    "{ read -r group word before </proc/self/autogroup && echo 10 >/proc/self/autogroup; } 2>/dev/null; "
    'nice=$(command -v nice) && nice="$nice -n 10"; $nice "$0" "$@"; status=$?; '
    '[ -z "$before" ] || echo "$before" 2>/dev/null >/proc/self/autogroup; exit $status'
)
# The file appears with its whole content, by the rename.
PUBLIC_HALF = 'umask 022; ssh-keygen -y -P "" -f "$1" >"$1.pub.new" && mv -f "$1.pub.new" "$1.pub"'
# With the comment that cloud-init appends.
PUBLIC_HALF_OF_GIVEN = (
    'umask 022; key=$(ssh-keygen -y -P "" -f "$1") && echo "$key root@localhost" >"$1.pub.new" '
    '&& mv -f "$1.pub.new" "$1.pub"'
)


def make_key(key: HostKey, host: Host, *, late: bool = False) -> Way | Declined:
    """`late`: after Ready, when no login waits for it."""
    why = key.problem or ("" if TOOL in host.tools else f"{TOOL} is not installed")
    if why:
        return Declined(backend=TOOL, why=why)
    # ssh-keygen asks before it overwrites a file. A distribution's own unit may make the same key meanwhile (`makes`).
    actions: tuple[Action, ...] = (Remove(path=key.path),) if key.there else ()
    if key.public_link:
        actions += (Remove(path=key.public_link),)
    actions += tuple(MakeDir(path=directory, mode=0o755) for directory in key.missing)
    argv = (TOOL, "-q", "-t", key.type, "-N", "", "-C", "", "-f", key.real)
    actions += (Run(argv=("sh", "-c", GIVE_WAY, *argv) if late else argv, makes=key.path),)
    # A key made after Ready comes too late for the step that labels all other files.
    actions += relabel((key.path, f"{key.path}.pub"), host)
    return Way(backend=TOOL, actions=actions)


def make_public_half(key: HostKey, host: Host, *, given: bool = False) -> Way:
    """The .pub file of a private key that is there. `given`: customData gave the key."""
    run = Run(argv=("sh", "-c", PUBLIC_HALF_OF_GIVEN if given else PUBLIC_HALF, TOOL, key.real))
    return Way(backend=TOOL, actions=(run, *relabel((f"{key.path}.pub",), host)))
