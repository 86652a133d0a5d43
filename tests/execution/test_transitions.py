"""Every cell of the table of phases and commands, with real commands on the fake cluster."""

from pathlib import Path

import pytest

from execution.health import baseline_of
from execution.held import changes_of
from execution.journal import HELD, Phase, WaveId
from execution.transitions import TABLE, Act, Column, Command, Other, column_of, markdown
from setup.paths import HOME
from tests.execution import rows
from tests.execution.lab import MB, Build
from tests.execution.terminal import PLAN, WHERE, Terminal
from tests.execution.test_operator_faults import killed_at

REFUSES = (Act.NOT_HELD, Act.NOTHING, Act.ENDS, Act.NOT_FREE)
LINES = {
    Command.THROTTLE: f"wave throttle --wave 1 {PLAN}",
    Command.EXECUTE: f"wave execute --wave 1 {PLAN}",
    Command.WAIT: f"wave wait --once --wave 1 {PLAN}",
    Command.OFF: f"wave off --wave 1 {PLAN}",
    Command.ELECT: f"wave elect --wave 2 {PLAN}",
    Command.RUN: f"run --for 0.1 {PLAN}",
    Command.ROLLBACK: f"rollback --wave 1 --for 0.1 {PLAN}",
    Command.STEER: f"rate 5 --cluster c {WHERE}",
    Command.CANCEL: f"cancel --cluster c {WHERE}",
    Command.FIX: f"run --fix-dirs --for 0.1 {PLAN}",
}
BY_OTHER_RULES = {Command.ELECT}  # not all waves are done: this refuses it first


def bring(terminal: Terminal, command: Command, column: Column) -> WaveId:
    """Bring the wave of the command, or another holder, into a column of the table; returns the wave."""
    lab = terminal.lab
    is_back = command is Command.ROLLBACK and isinstance(column, Phase)
    going, line = WaveId(1, is_rollback=is_back), LINES[Command.ROLLBACK if is_back else Command.RUN]
    if is_back:
        lab.rate_bytes_per_s = 100 * MB
        assert terminal.run("--waves 1").code == 0
        lab.rate_bytes_per_s = MB
        del lab.sizes["t", 0, 2], lab.sizes["t", 1, 1]
        lab.kills.calls.clear()
    if isinstance(column, Phase) and column is not Phase.FREE:
        event = {Phase.COPYING: "executed"}.get(column, str(column))
        ending = (Phase.CANCELLING, Phase.CANCELLED, Phase.REMOVING)
        if column in ending:
            assert terminal.type(f"./ballast {line}").code == 4
        if column is Phase.COPIED:
            lab.rate_bytes_per_s = 100 * MB
        killed_at(
            terminal,
            f"append {event}",
            f"./ballast {LINES[Command.CANCEL] if column in ending else line}",
        )
    elif column is Other.WAVE:
        rows.record(lab.warehouse, lab.plan, 2, HELD, changes=held_changes(terminal, 2))
    elif column is Other.ROLLBACK:
        rows.record_rollback(lab.warehouse, lab.plan, [2], "ann")
        rows.record(lab.warehouse, lab.plan, -2, HELD, changes=held_changes(terminal, 2))
    elif column is Other.PLAN:
        another = type(lab.plan)("c", "another", lab.plan.manifest, "", ())
        rows.record(lab.warehouse, another, 1, HELD, changes=held_changes(terminal, 1))
    return going


def held_changes(terminal: Terminal, number: int) -> str:
    """What a wave is about to change."""
    now = terminal.lab.kafka.observe()
    wave = terminal.lab.waves[number - 1]
    return changes_of(wave, wave.entries(now), baseline_of(now))


@pytest.mark.parametrize("column", [*Phase, *Other], ids=str)
@pytest.mark.parametrize("command", TABLE, ids=str)
def test_a_command_does_what_its_cell_says(
    build: Build, monkeypatch: pytest.MonkeyPatch, command: Command, column: Column
) -> None:
    """A cell that refuses changes neither the cluster nor the journal; the others are not refused by any hold."""
    terminal = Terminal(build(rate_bytes_per_s=MB), monkeypatch)
    lab = terminal.lab
    wave = bring(terminal, command, column)
    assert column_of(terminal.journal.look(), lab.plan, wave) is column
    act = TABLE[command][column]
    before = len(lab.warehouse.stored), dict(lab.kafka.throttles), dict(lab.kafka.moves)
    ended = terminal.type(f"./ballast {LINES[command]}")
    text = ended.error
    reasons = ("is held by", "nothing else is done with it", "does not hold", "no wave holds")
    is_by_hold = any(reason in text for reason in reasons)
    if act in REFUSES and command not in BY_OTHER_RULES:
        assert (ended.code, is_by_hold) == (3, True), text
        stored = [row for row in lab.warehouse.stored[before[0] :] if row["event"] not in ("running", "ended")]
        assert (stored, dict(lab.kafka.throttles), dict(lab.kafka.moves)) == ([], *before[1:])
    elif act not in REFUSES:
        assert not is_by_hold, text


def test_the_page_has_the_table() -> None:
    """docs/journal.md is made from it."""
    assert markdown() in Path(HOME, "docs", "journal.md").read_text(encoding="utf-8")
