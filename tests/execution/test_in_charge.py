"""One process executes the waves of a cluster at a time."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from execution import journal
from execution.in_charge import Busy, check_no_other_host, in_charge, is_alive, lock_file, on_other_host
from execution.journal import Journal
from execution.planned import Plan
from execution.wave import Wave
from optimizer import locks
from tests.execution import rows
from tests.execution.fake_kafka import Kills, MemoryWarehouse


class Hosts:
    """Processes on several hosts; each has its own lock files."""

    def __init__(self, plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan, self.folder, self.monkeypatch = plan, folder, monkeypatch
        self.table = MemoryWarehouse(folder, Kills())

    def on(self, host: str) -> Journal:
        """The journal, as a process of this host sees it from now on."""
        self.monkeypatch.setattr(socket, "gethostname", lambda: host)
        warehouse: Any = MemoryWarehouse(self.folder / host, Kills(), self.table.stored)
        return Journal(warehouse, self.plan.cluster_id)

    def rows(self) -> list[tuple[str, str]]:
        """The events and their hosts."""
        return [(row["event"], json.loads(row["result"])["host"]) for row in self.table.stored]


@pytest.fixture
def hosts(two_waves: tuple[Plan, tuple[Wave, Wave]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Hosts of a plan."""
    return Hosts(two_waves[0], tmp_path, monkeypatch)


def test_a_process_is_in_charge_until_it_ends(hosts: Hosts) -> None:
    """Also if it ends with an error."""
    a = hosts.on("a")
    assert not is_alive(a)
    with pytest.raises(KeyError), in_charge(a, hosts.plan, take_over=False) as check:
        check()
        assert is_alive(a)
        assert hosts.rows() == [("running", "a")]
        raise KeyError
    assert hosts.rows() == [("running", "a"), ("ended", "a")]
    assert not is_alive(a)


def test_a_second_process_of_the_host_does_nothing(hosts: Hosts) -> None:
    """It ends with 4, also with --take-over; the first one goes on."""
    a = hosts.on("a")
    for take_over in (False, True):
        with in_charge(a, hosts.plan, take_over=False) as check:
            with pytest.raises(Busy, match=r"^another process of this host executes waves of cluster 'c': ") as busy:
                in_charge(a, hosts.plan, take_over=take_over).__enter__()
            assert busy.value.exit_code == 4
            check()
    assert hosts.rows() == [("running", "a"), ("ended", "a")] * 2


def test_a_killed_process_of_the_host_keeps_nothing(hosts: Hosts) -> None:
    """Its lock has ended with it, although the table has no row ``ended``."""
    a = hosts.on("a")
    rows.record_of_run(a.warehouse, hosts.plan, journal.RUNNING, "a")
    assert not is_alive(a)
    with in_charge(a, hosts.plan, take_over=False) as check:
        check()
    assert hosts.rows() == [("running", "a"), ("running", "a"), ("ended", "a")]


def test_nobody_knows_whether_a_process_of_another_host_is_dead(hosts: Hosts) -> None:
    """So it is named, and a person decides with --take-over."""
    rows.record_of_run(hosts.on("a").warehouse, hosts.plan, journal.RUNNING, "a")
    b = hosts.on("b")
    assert not is_alive(b)
    assert on_other_host(b) is not None
    message = r"^.* on a, process \d+ executes waves of cluster 'c' since .* UTC: nothing is done\. If .* --take-over$"
    with pytest.raises(Busy, match=message):
        in_charge(b, hosts.plan, take_over=False).__enter__()
    assert hosts.rows() == [("running", "a")]
    with in_charge(b, hosts.plan, take_over=True) as check:
        check()
    assert hosts.rows()[1:] == [("running", "b"), ("ended", "b")]


def test_a_process_that_was_replaced_changes_nothing_any_more(hosts: Hosts) -> None:
    """It ends with 4 before its next change, and does not end the run of the other one."""
    a = hosts.on("a")
    message = r"on b, process \d+ has taken over cluster 'c'"
    with pytest.raises(Busy, match=message) as busy, in_charge(a, hosts.plan, take_over=False) as check:
        b = hosts.on("b")
        other = in_charge(b, hosts.plan, take_over=True)
        check_b = other.__enter__()
        check_b()
        check()
    assert busy.value.exit_code == 4
    assert hosts.rows() == [("running", "a"), ("running", "b")]
    assert is_alive(b)
    other.__exit__(None, None, None)
    assert hosts.rows()[2:] == [("ended", "b")]
    assert not is_alive(b)


def test_of_two_processes_that_begin_at_once_the_later_row_decides(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one does not take the newest row for its own."""
    a = hosts.on("a")
    note = a.note

    def both(plan: Plan, event: str, result: Any) -> int | None:
        number = note(plan, event, result)
        note(plan, event, {"host": "b"})
        return number

    monkeypatch.setattr(a, "note", both)
    with pytest.raises(Busy, match="has taken over"), in_charge(a, hosts.plan, take_over=True) as check:
        check()
    assert hosts.rows() == [("running", "a"), ("running", "b")]


def test_a_process_that_ended_before_frees_the_cluster(hosts: Hosts) -> None:
    """For every host."""
    with in_charge(hosts.on("a"), hosts.plan, take_over=False):
        pass
    with in_charge(hosts.on("b"), hosts.plan, take_over=False) as check:
        check()


def test_a_lock_that_is_held_means_alive(hosts: Hosts) -> None:
    """Also before the row ``running`` is written."""
    a = hosts.on("a")
    with locks.exclusive_now(lock_file(a.warehouse, "run-c")) as is_held:
        assert is_held
        assert is_alive(a)
        assert not is_alive(Journal(a.warehouse, "d"))


@pytest.mark.parametrize(("waves", "command"), [([], "run"), ([2, 1], "rollback"), ([1], "rollback")])
def test_the_command_of_another_host_is_named(hosts: Hosts, waves: list[int], command: str) -> None:
    """The run or the rollback that was killed there, for a person who gives --take-over; earlier rollbacks are over."""
    a = hosts.on("a")
    rows.record_rollback(a.warehouse, hosts.plan, [2, 1], "eve")
    a.note(hosts.plan, journal.TAKEN_BACK, {"waves": [2, 1]})
    rows.record_of_run(a.warehouse, hosts.plan, journal.RUNNING, "a")
    if waves:
        rows.record_rollback(a.warehouse, hosts.plan, waves, "ann")
    options = {0: "", 1: " --wave 1 --by ann", 2: " --all --by ann"}[len(waves)]
    end = f"has ended, ./ballast {command} --run-id r --cluster c{options} --take-over applies it"
    with pytest.raises(Busy, match=f"{re.escape(end)}$"):
        check_no_other_host(hosts.on("b"))
