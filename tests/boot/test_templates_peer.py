"""Templates and the image's configuration, compared with the code of cloud-init in Debian 12 and 13."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from azureinit.config.model import Config, Userdata
from azureinit.facts.image_config import read_image_config
from azureinit.machine import Machine
from azureinit.run.rendering import render
from azureinit.sources.metadata import Metadata
from azureinit.userdata.document import read_document
from azureinit.userdata.expanding import Failed
from azureinit.userdata.instance_data import System, instance_data, redacted
from azureinit.userdata.jinja import variables
from azureinit.userdata.node import plain
from support.peer_cloud_init import SUITES, imported

KEYS = st.sampled_from(["v1", "v2", "v", "va", "v1.0", "a-b", "c.d", "e//f", "a==b", "region", "x y", "v-1"])
DATA = st.recursive(
    st.one_of(st.integers(), st.none(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
TEMPLATES = (
    "a: {{ v1.region }}\n",
    "a: {{ region }}",
    "{% if v1.region == 'west' %}\na: 1\n{% else %}\na: 2\n{% endif %}\n",
    "{% for key in v1.public_ssh_keys %}\n- {{ key }}\n{% endfor %}\nend: 1\n\n\n",
    "{# comment #}\na: {{ ds.meta_data.local_hostname | upper }}\n",
    "{% do v1.items() %}\na: {{ nope }} {{ v1.nope }}\n",
    "a: {{ nope }}\nb: {{ nope2 | default('c') }}\n",
    "a: {{ 'é' }}\n",
)


@pytest.mark.parametrize("suite", SUITES)
def test_variables(suite: str, tmp_path: Path) -> None:
    with imported(suite, "cloudinit.handlers.jinja_template", tmp_path) as peer:

        @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
        @given(data=st.dictionaries(KEYS, DATA, max_size=5))
        def same(data: dict[str, Any]) -> None:
            theirs = peer.convert_jinja_instance_data(data, include_key_aliases=True)
            assert variables(data) == theirs
            assert variables(data, aliases=False) == peer.convert_jinja_instance_data(data)

        same()


@pytest.mark.parametrize("suite", SUITES)
def test_rendering(suite: str, tmp_path: Path) -> None:
    data = {
        "v1": {"region": "west", "public_ssh_keys": ["a", "b"]},
        "ds": {"meta_data": {"local-hostname": "vm1"}},
    }
    with imported(suite, "cloudinit.handlers.jinja_template", tmp_path) as peer:
        for text in TEMPLATES:
            template = f"## template: jinja\n#cloud-config\n{text}"
            theirs = peer.render_jinja_payload(template, "x", json.loads(json.dumps(data)))
            ours = render(Machine(), template.encode(), data, placeholders=True)
            assert not isinstance(ours, Failed), (text, ours)
            assert ours.decode() == theirs, text


@pytest.mark.parametrize("suite", SUITES)
def test_the_image_s_configuration(suite: str, tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "code"
    place.mkdir()
    (root / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    (root / "etc/cloud/cloud.cfg").write_text("ntp: {enabled: false, servers: [a]}\nlocale: C\ntimezone: UTC\n")
    (root / "etc/cloud/cloud.cfg.d/10.cfg").write_text("#cloud-config\nlocale: de_DE.UTF-8\nntp: {pools: [p]}\n")
    (root / "etc/cloud/cloud.cfg.d/20.cfg").write_text("ntp: {pools: [q]}\nruncmd: [a]\n")
    text = "hostname: a\nntp: {servers: [b, c]}\nruncmd: [b]\n"
    with imported(suite, "cloudinit.util", place) as peer:
        system = peer.read_conf_with_confd(str(root / "etc/cloud/cloud.cfg"))
        theirs = peer.mergemanydict([peer.load_yaml(text), system])
    compatible = Config(userdata=Userdata(cloud_init_compat=True))
    below = read_image_config(Machine(root=str(root)), compatible)
    ours = read_document(f"#cloud-config\n{text}".encode(), below=below)
    assert not ours.errors
    assert plain(ours.config) == theirs


def test_what_is_sensitive(tmp_path: Path) -> None:
    """Debian 12's does not hide merged_system_cfg."""
    imds = {"compute": {"userData": "s", "location": "west"}, "security-credentials": {"a": "s"}}
    made = instance_data(
        Metadata(hostname="vm1"), System(), vm_id="0", imds=imds, image_config={"users": ["s"]}
    )  # fmt: skip
    with imported(SUITES[-1], "cloudinit.sources", tmp_path) as peer:
        keys = peer.DataSource.sensitive_metadata_keys
        theirs = peer.process_instance_metadata(made, sensitive_keys=keys)
        names = {name for name in theirs["v1"] if not name.startswith("_")}
        shown = peer.redact_sensitive_keys(theirs)
    ours = redacted(made)
    assert set(theirs["sensitive_keys"]) - set(made["sensitive_keys"]) == set()
    for key in ("merged_cfg", "merged_system_cfg", "v1"):
        assert ours[key] == shown[key]
    standard = {
        "availability_zone", "cloud_id", "cloud_name", "distro", "distro_version", "distro_release", "platform",
        "public_ssh_keys", "python_version", "instance_id", "kernel_release", "local_hostname", "machine", "region",
        "subplatform", "system_platform", "variant",
    }  # fmt: skip
    assert standard <= names
