"""Machines made from the test documents of other agents: each ends in Ready, with a login that works."""

from __future__ import annotations

import pytest

from fakeazure import Imds, Media, Vm
from fakeazure.platform.vm import PUBLIC_KEY
from support.bench import Benches

DROPIN = "etc/ssh/sshd_config.d/00-azure-init.conf"
KEYS = "home/azureuser/.ssh/authorized_keys"
PASSWORD = Vm(password="s3cret+pass", disable_password=False, keys=())


def test_a_password_alone_switches_password_logins_on(bench: Benches) -> None:
    one = bench(vm=PASSWORD, imds=Imds(enable=False), media=Media(omit=("DisableSshPasswordAuthentication",)))
    one.install_sshd()
    with (one.tree / "etc/ssh/sshd_config").open("a") as image:
        image.write("PasswordAuthentication no\n")
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().state == "ready"
    assert "PasswordAuthentication yes\n" in one.read(DROPIN)
    assert one.read("etc/shadow").count(":$") == 1


@pytest.mark.parametrize("key", ["-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----", "no-openssh-format"])
def test_a_key_of_imds_that_is_none_gives_way_to_the_medium_s(bench: Benches, key: str) -> None:
    one = bench(vm=Vm(keys=(key,)), media=Media(texts={"Value": PUBLIC_KEY}))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().state == "ready"
    assert one.read(KEYS) == PUBLIC_KEY + "\n"
    assert "key 1 of imds is not used" in ran.err and "MCow" not in ran.err


@pytest.mark.parametrize("wrap", ["\r\n", "\n"])
def test_a_wrapped_key_on_the_medium_alone(bench: Benches, wrap: str) -> None:
    wrapped = PUBLIC_KEY[:50] + wrap + PUBLIC_KEY[50:] + wrap
    one = bench(imds=Imds(enable=False), media=Media(texts={"Value": wrapped}))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.read(KEYS) == PUBLIC_KEY + "\n"


def test_a_guest_agent_wish_that_is_neither_true_nor_false_is_a_warning(bench: Benches) -> None:
    one = bench(imds=Imds(enable=False), media=Media(texts={"ProvisionGuestAgent": "maybe"}))
    ran = one.agent()
    assert ran.status == 0, ran.err
    assert one.fabric.judge().ok
    assert "ProvisionGuestAgent in ovf-env.xml is neither true nor false: taken as absent" in ran.err


@pytest.mark.parametrize("form", ["udf", "iso", "bridge"])
def test_media_of_every_form_are_still_read(bench: Benches, form: str) -> None:
    one = bench(imds=Imds(enable=False), media=Media(format=form))
    assert one.agent().status == 0
    assert one.fabric.judge().ok
