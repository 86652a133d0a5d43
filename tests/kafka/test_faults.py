"""The command run on a real cluster whose nodes die: every acknowledged record stays, and no throttle does."""

import signal
import time

import pytest

from execution.admin import KafkaAdmin
from optimizer.kafka.throttle import FOLLOWER_RATE
from tests.kafka import topics
from tests.kafka.lab import MakeLab, until, written
from tour.cluster import CONTROLLER

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

FENCED_SECONDS = 12  # seconds until a dead node is known to be dead, and a few more


@pytest.mark.parametrize(
    "node",
    [pytest.param(1, id="source and first bootstrap server"), pytest.param(4, id="bystander"), CONTROLLER],
)
def test_a_node_that_is_killed_and_comes_back(make_lab: MakeLab, node: int) -> None:
    """The command waits for it, and ends the wave."""
    lab = make_lab(f"killed-{node}", [{0: ([1, 2], [1, 2, 3])}], megabytes=14)
    with written(lab), lab.running() as process:
        until(lambda: lab.copied_bytes(3) > 0)
        lab.cluster.stop_broker(node, signal.SIGKILL)
        time.sleep(FENCED_SECONDS)
        lab.cluster.start_broker(node)
        out, err = process.communicate(timeout=2 * topics.SECONDS)
    assert (process.returncode, err) == (0, ""), out
    assert (lab.lists(), lab.now().throttles) == ([(1, 2, 3)], {})
    if node == 4:
        assert "wave 1 of 1: broker 4 is not alive any more" in out


def test_a_broker_that_comes_back_answers_a_client_that_began_without_it(make_lab: MakeLab) -> None:
    """The client library would know it after five minutes: so long a wave would have waited to remove its rate."""
    lab = make_lab("returned", [{0: ([1, 2], [1, 3])}], megabytes=1)
    lab.cluster.stop_broker(4)
    until(lambda: 4 not in lab.now().alive)
    with KafkaAdmin(lab.client) as admin:
        assert 4 not in admin.observe().alive
        lab.cluster.start_broker(4)
        until(lambda: 4 in admin.observe().alive)
        until(lambda: not admin.observe().silent)


@pytest.mark.parametrize(
    "node", [pytest.param(1, id="source and first bootstrap server"), pytest.param(3, id="target")]
)
def test_a_hung_broker_is_waited_for(make_lab: MakeLab, node: int) -> None:
    """Stopped and continued: the copy goes on under its throttles, and no throttle is left at the end."""
    lab = make_lab(f"hung-{node}", [{0: ([1, 2], [1, 2, 3])}], megabytes=10)
    process_of = lab.cluster.nodes[node].process
    assert process_of is not None
    with written(lab), lab.running() as process:
        until(lambda: lab.copied_bytes(3) > 0)
        process_of.send_signal(signal.SIGSTOP)
        try:
            time.sleep(FENCED_SECONDS)
        finally:
            process_of.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=2 * topics.SECONDS)
    assert (process.returncode, err) == (0, ""), out
    assert (lab.lists(), lab.now().throttles) == ([(1, 2, 3)], {})


def test_a_target_that_is_killed_is_taken_back(make_lab: MakeLab) -> None:
    """Its copy cannot end: the wave that waits for it is taken back while it is dead. Its rate is owed, and named."""
    lab = make_lab("undone", [{0: ([1, 2], [1, 3]), 1: ([2, 1], [2, 4])}], megabytes={0: 14, 1: 1})
    with written(lab):
        with lab.running() as process:
            until(lambda: lab.now().replicas[lab.topic, 1] == (2, 4))
            lab.cluster.stop_broker(3, signal.SIGKILL)
            until(lambda: 3 not in lab.now().alive)
            process.kill()
        ended = lab.back("--all")
        assert (ended.code, lab.lists()) == (4, [(1, 2), (2, 4)]), ended
        assert "owed: brokers 3 follower.replication.throttled.rate" in ended.err
        ended = lab.back("--all", "--accept-owed")
        assert (ended.code, lab.lists()) == (0, [(1, 2), (2, 1)]), ended
        lab.cluster.start_broker(3)
    rate = ("brokers", "3", FOLLOWER_RATE)
    assert set(lab.now().throttles) == {rate}
    with KafkaAdmin(lab.client) as admin:
        assert admin.alter({rate: ("DELETE", None)}) == {}
