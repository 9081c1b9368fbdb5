"""What every module is given beside the facts that its row reads."""

from __future__ import annotations

from azureinit.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureinit.config.model import Config
    from azureinit.record import Secret
    from azureinit.sources.metadata import Metadata
    from azureinit.userdata.node import Node
    from azureinit.userdata.values import Part


class Request(Record):
    # The merged cloud-config, a mapping. Without any it is empty.
    config: Node
    settings: Config
    # What the platform asked for: the admin, the keys, the host name.
    metadata: Metadata
    vm_id: str
    # The files of this VM: its scripts and their output. Mode 0700.
    directory: str
    # Scripts and boothooks, in the order in which they were given.
    parts: tuple[Part, ...] = ()
    # The sources of write_files, by URI, as far as they could be fetched.
    fetched: Mapping[str, Secret] = {}
    # The steps that the stage's journal remembers.
    done: frozenset[str] = frozenset()
    # In days since 1970, as /etc/shadow counts.
    today: int = 0
    rooted: bool = False  # this is a file tree, not the running system

    @property
    def compatible(self) -> bool:
        """Do as cloud-init does where the two differ."""
        return self.settings.userdata.cloud_init_compat
