"""Programs that apt's configuration needs: gpg for keys of key servers, debconf, add-apt-repository."""

from __future__ import annotations

from azureinit.backends.packages import APT_ENV, log_path
from azureinit.plan.actions import MakeDir, Run, Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from azureinit.record import Secret

KEYSERVER = "keyserver.ubuntu.com"
# The packages that have these programs.
PACKAGES = {"gpg": "gnupg", "add-apt-repository": "software-properties-common"}
KEY_TIMEOUT = 180.0
LONG = 600.0
# $1: the key server, $2: the key, $3: the file. In a home of its own, whose daemons are ended; dirmngr also between
# attempts, because it does not ask a server again that did not answer. Whether the key is there counts, and not gpg's
# status: on a busy machine gpg may fail to start its agent, which this does not need.
RECEIVE = (
    "home=$(mktemp -d) || exit; "
    """trap 'gpgconf --homedir "$home" --kill all >/dev/null 2>&1; rm -rf "$home"' EXIT; """
    'gpg="gpg --homedir $home --batch --no-tty"; tries=1; '
    'until $gpg --keyserver="$1" --recv-keys -- "$2"; $gpg --export -- "$2" >"$home/key"; [ -s "$home/key" ]; do '
    "[ $tries -lt 3 ] || exit 2; tries=$((tries + 1)); sleep 1; "
    'gpgconf --homedir "$home" --kill dirmngr; done; '
    'cat "$home/key" >"$3.new" && chmod 0644 "$3.new" && mv "$3.new" "$3"'
)


def receive_key(key: str, *, server: str, path: str, directory: str) -> Way:
    run = Run(
        argv=("sh", "-c", RECEIVE, "sh", server or KEYSERVER, key, path),
        timeout=KEY_TIMEOUT,
        output=log_path(directory),
        says=("gpg: ",),
    )
    parent = MakeDir(path=path.rpartition("/")[0], mode=0o755, kept=True)
    return Way(backend="gpg", actions=(MakeDir(path=directory, mode=0o700, kept=True), parent, run))


def add_repository(source: str, *, directory: str) -> Way:
    run = Run(
        argv=("add-apt-repository", "--yes", "--no-update", source),
        timeout=LONG,
        output=log_path(directory),
        env=APT_ENV,
        says=("E: ", "ERROR", "Error", "Cannot"),
    )
    return Way(backend="add-apt-repository", actions=(MakeDir(path=directory, mode=0o700, kept=True), run))


def set_selections(selections: Secret, *, directory: str) -> Way:
    """What it says about a wrong line may hold the value: it goes into the log, and no failure quotes it."""
    run = Run(argv=("debconf-set-selections",), stdin=selections, env=APT_ENV, output=log_path(directory))
    return Way(backend="debconf-set-selections", actions=(MakeDir(path=directory, mode=0o700, kept=True), run))
