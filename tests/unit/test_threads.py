"""Threads, flags and queues."""

from __future__ import annotations

import time
from functools import partial

from azureinit.machine.threads import Flag, Inbox, start


def test_a_flag_is_waited_for_by_anybody_and_stays_up() -> None:
    flag = Flag()
    assert not flag.wait(0)
    flag.set()
    flag.set()
    assert flag.wait(0)
    assert flag.wait()


def test_an_end_is_seen_and_what_was_done_before_it() -> None:
    done: list[int] = []
    assert start(lambda: done.append(1)).wait(30)
    assert done == [1]


def test_work_that_waits_goes_on_when_told() -> None:
    told, done = Flag(), list[int]()

    def wait_and_tell() -> None:
        told.wait()
        done.append(1)

    ended = start(wait_and_tell)
    assert not ended.wait(0.01)
    assert not done
    told.set()
    assert ended.wait(30)
    assert done == [1]


def test_messages_come_in_order_and_none_is_lost() -> None:
    inbox, count = Inbox(), 500

    def write(who: int) -> None:
        for number in range(count):
            inbox.put((who, number))

    writers = [start(partial(write, who)) for who in range(4)]
    heard = [inbox.get(30) for _ in range(4 * count)]
    assert all(writer.wait(30) for writer in writers)
    for who in range(4):
        assert [number for one, number in heard if one == who] == list(range(count))
    assert inbox.get(0) is None


def test_who_waits_for_a_message_waits_no_longer_than_told() -> None:
    inbox = Inbox()
    began = time.monotonic()
    assert inbox.get(0.05) is None
    assert time.monotonic() - began >= 0.05

    def late() -> None:
        Flag().wait(0.01)
        inbox.put("late")

    start(late)
    assert inbox.get(30) == "late"
