"""What each command does in each phase of the wave that holds the cluster. Only this table decides it.

``run``, ``rollback``, ``wave`` and the steering commands ask it before they change anything; docs/journal.md prints
it.
"""

from enum import StrEnum

from execution.journal import Hold, Ledger, Phase, WaveId
from execution.planned import Plan
from stored.verdicts import Refused


class Command(StrEnum):
    """Commands that change a cluster or its journal."""

    THROTTLE = "wave throttle"
    EXECUTE = "wave execute"
    WAIT = "wave wait"
    OFF = "wave off"
    ELECT = "wave elect"
    RUN = "run"
    ROLLBACK = "rollback"
    STEER = "rate, pause, resume, stop"
    CANCEL = "cancel"
    FIX = "run --fix-dirs"


class Other(StrEnum):
    """Who holds the cluster, if it is not the wave of the command."""

    WAVE = "another wave of the plan"
    ROLLBACK = "a rollback of the plan"
    PLAN = "another plan"


class Act(StrEnum):
    """What a command does, in a word; ``MEANS`` has it in a sentence."""

    BEGIN = "begins"
    SET = "throttles"
    START = "starts"
    WATCH = "watches"
    LOOK = "looks"
    CANCEL = "cancels"
    REMOVE = "ends"
    GO_ON = "goes on"
    TAKE_BACK = "takes back"
    CANCEL_FIRST = "cancels first"
    STEER = "steers"
    ELECT = "elects"
    FIX = "moves"
    NOT_HELD = "refuses: not held"
    NOTHING = "refuses: nothing"
    ENDS = "refuses: ending"
    NOT_FREE = "refuses: held"


MEANS = {
    Act.BEGIN: "checks the cluster, rights and room; holds the cluster, sets the throttles; `run` then watches",
    Act.SET: "sets throttles that are missing",
    Act.START: "starts what waits",
    Act.WATCH: "starts what waits, watches the copies, then removes the throttles and frees the cluster",
    Act.LOOK: "waits for the copies, and records their time",
    Act.CANCEL: "cancels what moves, or finishes a cancel; then removes the throttles and frees the cluster",
    Act.REMOVE: "removes the throttles, if no copy runs, and frees the cluster",
    Act.GO_ON: "goes on with the wave, or the rollback, that holds the cluster; then with its own waves",
    Act.TAKE_BACK: "copies back what was moved, as a wave of its own",
    Act.CANCEL_FIRST: "cancels the wave that holds the cluster, then takes back",
    Act.STEER: "changes rates, or what starts, of the wave that holds the cluster",
    Act.ELECT: "elects the first replicas, if all waves between brokers are done",
    Act.FIX: "moves replicas into their planned directories, after the wave",
    Act.NOT_HELD: "says that the step throttle comes first",
    Act.NOTHING: "says that no wave holds the cluster",
    Act.ENDS: "says that the wave is being ended, and which command ends it",
    Act.NOT_FREE: "names the holder, and the commands that go on with it and end it",
}


Column = Phase | Other


def _row(free: Act, before: Act, started: Act, cancelling: Act, ending: Act, *others: Act) -> dict[Column, Act]:
    """A row of the table; ``others`` are its acts if another wave, a rollback or another plan holds the cluster."""
    return {
        Phase.FREE: free,
        **dict.fromkeys((Phase.HELD, Phase.THROTTLED), before),
        **dict.fromkeys((Phase.STARTING, Phase.COPYING, Phase.COPIED), started),
        Phase.CANCELLING: cancelling,
        **dict.fromkeys((Phase.CANCELLED, Phase.REMOVING), ending),
        **dict(zip(Other, others, strict=True)),
    }


_NOT_FREE = (Act.NOT_FREE,) * 3
TABLE: dict[Command, dict[Column, Act]] = {
    Command.THROTTLE: _row(Act.BEGIN, Act.SET, Act.SET, Act.ENDS, Act.ENDS, *_NOT_FREE),
    Command.EXECUTE: _row(Act.NOT_HELD, Act.START, Act.START, Act.ENDS, Act.ENDS, *_NOT_FREE),
    Command.WAIT: _row(Act.LOOK, Act.LOOK, Act.LOOK, Act.LOOK, Act.LOOK, *(Act.LOOK,) * 3),
    Command.OFF: _row(Act.REMOVE, Act.REMOVE, Act.REMOVE, Act.CANCEL, Act.REMOVE, *_NOT_FREE),
    Command.ELECT: _row(
        *(Act.ELECT, Act.ELECT, Act.ELECT, Act.ELECT, Act.ELECT), *(Act.ELECT, Act.NOT_FREE, Act.NOT_FREE)
    ),
    Command.RUN: _row(
        *(Act.BEGIN, Act.BEGIN, Act.WATCH, Act.CANCEL, Act.REMOVE), *(Act.GO_ON, Act.GO_ON, Act.NOT_FREE)
    ),
    Command.ROLLBACK: _row(
        *(Act.TAKE_BACK, Act.BEGIN, Act.WATCH, Act.CANCEL, Act.REMOVE), *(Act.CANCEL_FIRST, Act.NOT_FREE, Act.NOT_FREE)
    ),
    Command.STEER: _row(Act.NOTHING, Act.STEER, Act.STEER, Act.ENDS, Act.ENDS, *(Act.STEER,) * 3),
    Command.CANCEL: _row(Act.NOTHING, Act.CANCEL, Act.CANCEL, Act.CANCEL, Act.CANCEL, *(Act.CANCEL,) * 3),
    Command.FIX: _row(Act.FIX, Act.FIX, Act.FIX, Act.FIX, Act.FIX, *(Act.FIX, Act.FIX, Act.NOT_FREE)),
}


def column_of(ledger: Ledger, plan: Plan, wave: WaveId) -> Column:
    """The column of the table for a command about a wave."""
    hold = ledger.holder
    if hold is None:
        return Phase.FREE
    if not hold.is_of(plan):
        return Other.PLAN
    if hold.wave == wave:
        return hold.phase
    return Other.ROLLBACK if hold.wave.is_rollback else Other.WAVE


def decide(command: Command, ledger: Ledger, plan: Plan, wave: WaveId) -> Act:
    """What the command does with this wave now.

    Raises
    ------
    Refused
        When the table refuses; the message says who holds the cluster and the commands that go on.
    """
    act = TABLE[command][column_of(ledger, plan, wave)]
    if act is Act.NOT_FREE:
        ledger.check_free(plan, wave)
    if act is Act.NOT_HELD:
        raise Refused(f"{wave.name} does not hold the cluster: run its step throttle first")
    if act is Act.NOTHING:
        raise Refused(f"{wave.name} of run {plan.run_id!r} does not hold the cluster any more")
    if act is Act.ENDS:
        raise Refused(_why_ending(ledger.holder))
    return act


def _why_ending(hold: Hold | None) -> str:
    """Why a wave that is being ended takes no other command, and what ends it."""
    assert hold is not None, "only a wave that holds the cluster is being ended"
    is_removing = hold.phase is Phase.REMOVING
    begun = "the removal of its throttles has begun" if is_removing else "a cancel has begun"
    return f"{hold.wave.name}: {begun}, so nothing else is done with it. To end it: {hold.ending_command()}"


def markdown() -> str:
    """The table for docs/journal.md: a row for each command; phases with equal cells share a column."""
    columns: dict[tuple[Act, ...], list[Column]] = {}
    for column in (*Phase, *Other):
        columns.setdefault(tuple(acts[column] for acts in TABLE.values()), []).append(column)
    heads = [", ".join(group) for group in columns.values()]
    lines = [f"| | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for number, command in enumerate(TABLE):
        lines.append(f"| `{command}` | {' | '.join(cells[number] for cells in columns)} |")
    lines += ["", "| | |", "|---|---|", *(f"| {act} | {text} |" for act, text in MEANS.items())]
    return "\n".join(lines) + "\n"
