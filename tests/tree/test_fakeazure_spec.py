"""The default key of a VM as ssh-keygen reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fakeazure import Vm
from support.need import need


def test_the_default_key_is_one_that_ssh_takes(tmp_path: Path) -> None:
    file = tmp_path / "key.pub"
    file.write_text(Vm().public_keys[0].data)
    shown = subprocess.run([need("ssh-keygen"), "-l", "-f", file], capture_output=True, text=True, check=False)
    assert shown.returncode == 0 and "(ED25519)" in shown.stdout
