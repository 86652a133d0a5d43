"""The busiest leader of each wave if leaving replicas in the targets' racks led while their wave runs."""

import numpy as np

from optimizer.domain import Floats, Ints
from optimizer.schedule.exposed_states import Exposed, State, begun, effects_of, ended, moving_lists
from optimizer.schedule.wave_changes import bytes_per_broker


def busiest_near_leaders(exposed: Exposed, near: Ints) -> Floats:
    """The busiest leader's bytes out over the mean while each wave runs, from wave 1.

    It is nan for waves without near leaders.

    Parameters
    ----------
    near : (P,) int64
        The broker that would lead a partition while its wave runs; -1: it keeps the leader that it has then.

    Notes
    -----
    As in ``exposure``, the mean is that of the living brokers that have replicas, and bytes out are those to consumers
    and followers.
    """
    everything, changed = np.arange(len(exposed.wave)), np.flatnonzero(exposed.wave)
    wave, near = exposed.wave[changed], near[changed]
    ratios = np.full(int(wave.max(initial=0)), np.nan)
    if not (near >= 0).any():
        return ratios
    lists = moving_lists(exposed, changed)
    old = begun(exposed, everything, exposed.replicas)
    moving, over = begun(exposed, changed, lists), ended(exposed, changed, lists.shape[1], is_elected=False)
    leading = _leaders(exposed, old)
    leading_while = np.where(near >= 0, near, _leaders(exposed, moving))
    leading_after = _leaders(exposed, over)
    stays = old.hosts[exposed.wave == 0]
    for number in np.unique(wave[near >= 0]).tolist():
        leading[changed] = np.select([wave < number, wave == number], [leading_after, leading_while], leading[changed])
        hosts = (stays, over.hosts[wave < number], moving.hosts[wave == number], old.hosts[changed][wave > number])
        ratios[number - 1] = _busiest_over_mean(exposed, leading, np.concatenate([x.ravel() for x in hosts]))
    return ratios


def _leaders(exposed: Exposed, state: State) -> Ints:
    """The leader of each partition, -1 without one."""
    return effects_of(state, np.arange(len(exposed.rack))).leader


def _busiest_over_mean(exposed: Exposed, leader: Ints, hosts: Ints) -> float:
    load = bytes_per_broker(leader[:, None], exposed.load_bytes_per_s, len(exposed.rack))
    holders = np.unique(hosts[hosts >= 0])
    total = int(load.sum())
    return float(load.max() * exposed.is_living[holders].sum() / total) if total else float("nan")
