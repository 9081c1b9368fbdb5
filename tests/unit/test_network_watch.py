"""Changes of the network while the machine runs: which answer counts, what is removed, and how often IMDS is asked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings, strategies as st

from azureinit.facts.nics import read_nics
from azureinit.plan.network_answers import Due, Seen, due, is_same
from azureinit.run.network_watch import CONFIRM, LONGEST, MOST_RETRY_AFTER, Pace
from azureinit.sources.network_metadata import NetworkMetadata, parse_network
from support.followed_network import ADMINS, Followed, Killed, lines, watcher_of
from support.several_nics import A, B, entry, network


def answer(*entries: Any) -> NetworkMetadata:
    return parse_network(network(*entries))


ONE = answer(entry(A, "10.0.0.4"))
MORE = answer(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6"))
FEWER = answer(entry(A, "10.0.0.4", "10.0.0.6"))
OTHER = answer(entry(A, "10.0.0.4", "10.0.0.6", "10.0.0.7"))
BOTH = answer(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5"))
WITHOUT = answer(entry(A, "10.0.0.4"), entry(B, "10.0.1.4"))
ODD = answer(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", prefix="33"))
EMPTY = answer()
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nothing is synced there
ALL = answer(entry(A, "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"))


@pytest.mark.parametrize(
    ("settled", "last", "now", "expected"),
    [
        (None, None, MORE, Due(answer=MORE, tentative=True)),
        (None, MORE, MORE, Due(answer=MORE, confirmed=True)),
        (None, FEWER, MORE, Due(answer=MORE, tentative=True)),
        (ONE, ONE, MORE, Due(answer=MORE)),  # only more: at once
        (MORE, MORE, FEWER, Due(answer=MORE)),  # less: not yet
        (MORE, FEWER, FEWER, Due(answer=FEWER, confirmed=True)),
        (MORE, MORE, OTHER, Due(answer=ALL)),  # one is added at once, the other stays
        (BOTH, BOTH, ONE, Due(answer=BOTH)),
        (BOTH, BOTH, WITHOUT, Due(answer=BOTH)),
        (BOTH, ODD, ODD, Due(answer=answer(entry(A, "10.0.0.4"), entry(B, "10.0.1.4", "10.0.1.5")))),
        (MORE, MORE, EMPTY, None),
        (MORE, EMPTY, EMPTY, None),
        # Another first address, another subnet, an address at another NIC.
        (MORE, MORE, answer(entry(A, "10.0.0.7", "10.0.0.5")), None),
        (ONE, ONE, answer(entry(A, "10.0.0.4", prefix="25")), None),
        (BOTH, BOTH, answer(entry(A, "10.0.0.4", "10.0.1.5"), entry(B, "10.0.1.4")), None),
    ],
)
def test_what_an_answer_adds_counts_at_once_and_what_it_lacks_after_an_equal_one(
    settled: NetworkMetadata | None, last: NetworkMetadata | None, now: NetworkMetadata, expected: Due | None
) -> None:
    found = due(Seen(settled=settled, last=last), now)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert is_same(found.answer, expected.answer)
        assert (found.confirmed, found.tentative) == (expected.confirmed, expected.tentative)


def test_the_order_of_nics_and_secondary_addresses_means_nothing_and_the_first_address_does() -> None:
    assert is_same(BOTH, NetworkMetadata(nics=BOTH.nics[::-1]))
    assert is_same(MORE, answer(entry(A, "10.0.0.4", "10.0.0.6", "10.0.0.5")))
    assert not is_same(MORE, answer(entry(A, "10.0.0.5", "10.0.0.4", "10.0.0.6")))


# ---- random sequences: answers, restarts, kills


def wanted(document: tuple[frozenset[int], frozenset[int] | None]) -> NetworkMetadata:
    """The last digits of secondary addresses of A, and of B; None: B is not listed."""
    primary, second = document
    entries = [entry(A, "10.0.0.4", *(f"10.0.0.{digit}" for digit in sorted(primary)))]
    if second is not None:
        entries.append(entry(B, "10.0.1.4", *(f"10.0.1.{digit}" for digit in sorted(second))))
    return answer(*entries)


NONE: frozenset[int] = frozenset()
digits = st.frozensets(st.integers(5, 8), max_size=3)
answers = st.tuples(digits, st.none() | digits)
# An answer, whether the service is started anew before it, and the change before which it is killed.
looks = st.lists(st.tuples(answers, st.booleans(), st.none() | st.integers(1, 8)), min_size=1, max_size=7)


# Without shrinking, which takes minutes: the sequences are short.
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(looks)
@example([((NONE, NONE), False, None), ((NONE, NONE), False, 5), ((NONE, None), False, None)])  # before the mark goes
def test_nothing_but_our_own_is_removed_and_nothing_after_one_answer(sequence: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        machine = Followed(Path(place), A, B)
        watcher, last = watcher_of(machine), None
        for document, restart, kill in sequence:
            now = wanted(document)
            if restart:
                watcher, last = watcher_of(machine), None
            before, present = len(machine.removals), {*read_nics(machine).files}
            machine.kill_at = machine.effects + kill if kill is not None else -1
            try:
                watcher.answered(now, read_nics(machine))
            except Killed:  # between a reload and the file of the primary, which must not be loaded, there is no file
                watcher, now = watcher_of(machine), None  # type: ignore[assignment]
            removed = machine.removals[before:]
            assert all(own for _what, own in removed), removed
            gone = present - {*read_nics(machine).files} if now is not None else set()
            again = last is not None and (now is None or is_same(last, now))
            assert again or not (removed or gone), (removed, gone, document)
            assert ADMINS in {one.address for one in machine.addresses}
            last = now
        machine.kill_at = -1
        final, (primary, second) = wanted(sequence[-1][0]), sequence[-1][0]
        for _look in range(3):
            watcher.answered(final, read_nics(machine))
        assert machine.held(A) == {f"10.0.0.{digit}" for digit in primary}
        files = {path: data.decode() for path, data in read_nics(machine).files.items()}
        assert any(path.endswith("56.network") for path in files) == bool(primary)
        mine = next((text for path, text in files.items() if path.endswith("57.network")), None)
        assert (mine is None) == (second is None)
        assert {f"10.0.1.{digit}" for digit in range(5, 9) if f"Address=10.0.1.{digit}/" in (mine or "")} == {
            f"10.0.1.{digit}" for digit in second or ()
        }
        assert machine.stat("/var/lib/azure-init/c0ffee00-1111-2222-3333-444444444444.reload") is None
        done = machine.effects
        watcher.answered(final, read_nics(machine))
        assert machine.effects == done, "an equal answer changes nothing"


def test_equal_answers_cause_no_line_and_what_an_administrator_removes_stays_removed(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    watcher = watcher_of(machine)
    for _look in range(3):
        watcher.answered(MORE, read_nics(machine))
    told, done = len(lines(watcher)), machine.effects
    assert machine.held(A) == {"10.0.0.5", "10.0.0.6"}
    machine.change_addresses(2, add=(), remove=("10.0.0.5",))
    done = machine.effects
    for _look in range(50):
        watcher.answered(MORE, read_nics(machine))
    assert (len(lines(watcher)), machine.effects, machine.held(A)) == (told, done, {"10.0.0.6"})


def test_while_the_primary_has_no_lease_no_other_nic_passes_for_it(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A, B)
    watcher = watcher_of(machine)
    for _look in range(2):
        watcher.answered(BOTH, read_nics(machine))
    done = machine.effects
    (tmp_path / "run/systemd/netif/leases/2").unlink()
    machine.routes = machine.routes[1:]
    for _look in range(4):
        watcher.answered(WITHOUT, read_nics(machine))
    assert machine.effects == done
    assert [line for line in lines(watcher) if "primary" in line] == [
        f"the primary NIC was {A}, and is not certain now: nothing is changed"
    ]


def test_a_step_that_fails_is_tried_again_less_and_less_often_and_the_record_keeps_what_is_left(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    watcher = watcher_of(machine)
    for _look in range(2):
        watcher.answered(MORE, read_nics(machine))

    class Refusing(Followed):
        tried = 0

        def change_addresses(self, index: int, *, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
            from azureinit.errors import LocalError

            Refusing.tried += 1
            raise LocalError("the kernel refuses")

    machine.__class__ = Refusing
    for _look in range(70):
        watcher.answered(ONE, read_nics(machine))
    assert Refusing.tried == 7  # looks 1, 2, 4, 8, 16, 32, 64 after the second answer
    assert len(lines(watcher)) < 40
    machine.__class__ = Followed
    restarted = watcher_of(machine)
    for _look in range(2):
        restarted.answered(ONE, read_nics(machine))
    assert machine.held(A) == set() and machine.removals[-1] == ("10.0.0.6", True)


def test_another_azure_init_that_holds_the_lock_is_waited_for(tmp_path: Path) -> None:
    machine = Followed(tmp_path, A)
    unlock = machine.try_lock("/var/lib/azure-init/lock")
    assert unlock is not None
    watcher = watcher_of(machine)
    for _look in range(5):
        watcher.answered(MORE, read_nics(machine))
    assert machine.held(A) == set()
    unlock()
    watcher.answered(MORE, read_nics(machine))
    assert machine.held(A) == {"10.0.0.5", "10.0.0.6"}


# ---- the pace


def test_failures_double_the_pause_up_to_a_limit_and_the_platform_s_own_wish_counts() -> None:
    pace = Pace(60.0)
    pauses = [pace.failed(0.0, 0.0) for _try in range(6)]
    wholes = (120, 240, 480, LONGEST, LONGEST, LONGEST)
    assert len(pauses) == len(wholes)
    for number, (pause, whole) in enumerate(zip(pauses, wholes)):
        assert whole * 0.75 <= pause <= whole, number
    assert pace.failed(0.0, 1200.0) == 1200.0
    assert pace.failed(0.0, 1e9) == MOST_RETRY_AFTER
    assert pace.sooner(10.0) == MOST_RETRY_AFTER, "a link that appears does not shorten it"
    assert 45.0 <= pace.answered(0.0) <= 60.0 and pace.failures == 0


def test_requests_that_do_not_wait_for_the_interval_become_as_rare_as_the_others() -> None:
    pace, now, pauses = Pace(60.0), 0.0, []
    for _event in range(6):
        pace.answered(now)
        at = pace.sooner(now)
        pauses.append(at - now)
        now = at
    assert pauses == [CONFIRM, 2 * CONFIRM, 4 * CONFIRM, 8 * CONFIRM, 60.0, 60.0]
    pace.calm()
    pace.answered(now)
    assert pace.sooner(now) == now + CONFIRM


def test_a_period_below_a_second_is_a_second() -> None:
    assert Pace(0.01).interval == 1.0
