"""Moves replicas inside their brokers into the planned directories: ``--fix-dirs``."""

import time
from collections.abc import Mapping, Sequence

from execution import journal as events
from execution.actions import CHECK_SECONDS, Patience
from execution.directories import Misplaced, describe_misplaced, in_words
from execution.moves import replica_name
from execution.observed import Observed
from execution.steps import Execution, StillMoving
from execution.transitions import Command
from execution.watch import EveryMinute, Stalled
from optimizer.errors import bullets
from optimizer.units import clause, human_bytes, human_time, plural

_GONE = "its topic was deleted, its directory failed, or somebody removed it"


def check_dirs(step: Execution, patience: Patience) -> list[str]:
    """Say which replicas of a finished wave are in other directories than planned; move them if requested.

    Returns
    -------
    list of str
        A line for each replica that was to be moved, but stays: its directory is refused or has too little space.

    Raises
    ------
    StillMoving
        When the time is over; the moves go on.
    Stalled
        When nothing gets on.
    """
    now = step.observe_settled()
    if step.fix_dirs:
        return _fix(step, now, patience)
    step.say_misplaced(now)
    return []


def _fix(step: Execution, now: Observed, patience: Patience) -> list[str]:
    """Move the replicas of finished copies into their planned directories, and wait until they are there."""
    wrong = step.misplaced(now)
    if not wrong:
        return []
    for line in describe_misplaced(wrong):
        step.say(line)
    directories = step.admin.stored({one.replica[2] for one in wrong}).directories
    chosen = with_space(wrong, directories, step.disk_headroom)
    refusals = {one.replica: "its planned directory has too little space" for one in wrong if one not in chosen}
    with step.locked():
        step.decide(Command.FIX)
        if chosen:
            step.journal.note(step.plan, events.FIXING, {"replicas": describe_misplaced(chosen)}, step.wave.id)
        refused = step.admin.announce({one.replica: one.planned for one in chosen})
    refusals |= {replica: in_words(reason) for replica, reason in refused.items()}
    stays = [
        f"{replica_name(one.replica)} stays in {one.actual}, not {one.planned}: {refusals[one.replica]}"
        for one in wrong
        if one.replica in refusals
    ]
    for line in stays:
        step.say(line)
    moving = [one for one in chosen if one.replica not in refusals]
    if moving:
        size = human_bytes(sum(one.size_bytes for one in moving))
        step.say(f"{plural(len(moving), 'replica')} with {size} move inside their brokers to the planned directories")
        gone = _wait(step, moving, patience)
        for line in gone:
            step.say(line)
        stays += gone
        step.say(f"{plural(len(moving) - len(gone), 'replica')} moved to the planned directories")
    if chosen:
        result = {"moved": len(wrong) - len(stays), "stay": stays}
        step.journal.note(step.plan, events.FIXED, result, step.wave.id)
    return stays


def with_space(
    replicas: Sequence[Misplaced], directories: Mapping[tuple[int, str], tuple[int, int]], disk_headroom: float
) -> list[Misplaced]:
    """The replicas for which their planned directories have space, the largest first.

    Parameters
    ----------
    directories : mapping of (broker, path) to (bytes, bytes)
        Size and free space of each disk. A directory with unknown size takes all.
    disk_headroom : float
        Share of each disk that has to stay free.
    """
    free = {place: usable - disk_headroom * total for place, (total, usable) in directories.items()}
    chosen = []
    for one in sorted(replicas, key=lambda one: (-one.size_bytes, one.replica)):
        place = one.replica[2], one.planned
        if one.size_bytes <= free.get(place, one.size_bytes):
            free[place] = free.get(place, float("inf")) - one.size_bytes
            chosen.append(one)
    return chosen


def _wait(step: Execution, moving: Sequence[Misplaced], patience: Patience) -> list[str]:
    """Wait until the replicas are in their planned directories; returns a line for each that exists no more."""
    last: tuple[int, int] | None = None
    lines = EveryMinute(time.monotonic())
    while True:
        stored, at_seconds = step.admin.stored({one.replica[2] for one in moving}), time.monotonic()
        paths = stored.log_dirs
        gone = [one.replica for one in moving if one.replica not in paths and one.replica[2] in stored.reporting]
        left = [one.replica for one in moving if paths.get(one.replica) != one.planned and one.replica not in gone]
        if not left:
            return [f"{replica_name(replica)} is gone: {_GONE}" for replica in gone]
        state = len(left), sum(stored.moving[replica][1] for replica in left if replica in stored.moving)
        if state != last:
            last, since = state, at_seconds
        names = bullets([replica_name(replica) for replica in left])
        if patience.is_over(at_seconds):
            raise StillMoving(f"{step.name}: replicas still move inside their brokers:{names}")
        if at_seconds - since >= patience.stall_seconds:
            idle = human_time(at_seconds - since)
            raise Stalled(f"{step.name}: no progress for {idle} of replicas that move inside their brokers:{names}")
        if lines.take_turn(at_seconds):
            step.say(f"{step.name}: {clause(len(left), 'replica', 'moves', 'move')} inside their brokers")
        time.sleep(CHECK_SECONDS)
