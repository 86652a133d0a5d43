"""The commands that steer a running wave: rate, pause, resume, stop and cancel.

They write what is wanted to the journal. A living ``run`` applies it at its next look; without one the command does.
"""

import argparse
import re
import time
from dataclasses import replace

from execution.in_charge import check_no_other_host, is_alive
from execution.observed import Observed
from execution.progress import running_copies
from execution.steps import Execution
from execution.transitions import Command
from execution.wanted import CANCEL, STEP_SECONDS, STEPS, STOP, Wanted, foreign, next_rates, unknown
from execution.wave import MoveState, Wave
from optimizer.errors import BallastError, ConfigError, bullets
from optimizer.units import agree, clause, human_bytes, human_rate
from optimizer.windows_setting import MOST_MB_PER_S
from stored.verdicts import Refused

# What each copy of a paused broker still gets, each time that Kafka's meter has forgotten the last answer.
_PAUSED_BYTES = 2**20
_METER_SECONDS = 11  # seconds that Kafka's meter of a rate remembers
BYTES_PER_MB = 10**6  # decimal unit, a power of 1000


def wanted_rate(text: str, now_bytes_per_s: int, most_bytes_per_s: float) -> int:
    """The rate of a command line: MB/s, or a factor such as ``x0.5`` of the rate now.

    Raises
    ------
    ConfigError
        When it is no rate, above the limit of the configuration, or above any rate that a configuration may have.
    """
    match = re.fullmatch(r"(x?)(\d{1,30}(?:\.\d{1,30})?)", text)  # a float of more digits may be infinite
    rate = round(float(match[2]) * (now_bytes_per_s if match[1] else BYTES_PER_MB)) if match else 0
    if rate > MOST_MB_PER_S * BYTES_PER_MB:
        raise ConfigError(f"rate {text!r}: give at most {MOST_MB_PER_S} MB/s")
    if rate < 1:
        raise ConfigError(f"rate {text!r}: give MB/s such as 80, or a factor of the rate now such as x0.5")
    if most_bytes_per_s and rate > most_bytes_per_s:
        limit = human_rate(most_bytes_per_s)
        raise ConfigError(f"rate {text!r}: {human_rate(rate)} is above [execution] max_throttle_mb_per_s, {limit}")
    return rate


def change(name: str, wanted: Wanted, wave: Wave, options: argparse.Namespace, most_bytes_per_s: float) -> Wanted:
    """The wanted state after a command."""
    if name != "rate":
        return {
            "pause": replace(wanted, is_paused=True),
            "resume": replace(wanted, is_paused=False, ending="", pressure="", because=""),
            "stop": replace(wanted, ending=STOP, is_paused=False),  # else its copies would never end
            "cancel": replace(wanted, ending=CANCEL),
        }[name]
    if wave.copy_bytes_per_s is None:
        raise Refused("the wave copies nothing, so there is no rate to change")
    now_bytes_per_s = wanted.copy_bytes_per_s or wave.copy_bytes_per_s
    return replace(wanted, copy_bytes_per_s=wanted_rate(options.rate, now_bytes_per_s, most_bytes_per_s))


def steer_wave(step: Execution, options: argparse.Namespace, most_bytes_per_s: float) -> None:
    """Write what is wanted of the wave that holds the cluster; apply it if no ``run`` lives that does.

    Raises
    ------
    Busy
        When only a process on another host may apply it, and nobody knows whether that lives.
    BallastError
        When rates could not be set.
    """
    name, plan = options.command, step.plan
    step.decide(Command.CANCEL if name == "cancel" else Command.STEER)

    def wanted() -> str:
        return change(name, step.wanted_states()[-1], step.wave, options, most_bytes_per_s).to_json()

    step.journal.record_wanted(plan, step.wave.id, wanted)
    now = step.observe()
    if name == "pause":
        copies = len(running_copies(step.wave, now, step.ends(now)))
        step.say(_describe_pause(copies))
    if is_alive(step.journal):
        _say_foreign(step, step.wanted_states(), now)
        step.say(f"{step.name}: {name} is in the journal; the process that executes the plan applies it within seconds")
        return
    check_no_other_host(step.journal)
    if name == "cancel":
        step.off(cancel=True, accept_owed=False)
        return
    if name == "stop":
        step.say(f"{step.name}: no process executes the plan, so nothing more is started")
    _apply(step, step.wanted_states())
    if name == "resume":
        _say_waiting(step)


def _describe_pause(copies: int) -> str:
    """What is still copied during a pause: no rate stops a copy completely."""
    return (
        f"{copies} running {agree(copies, 'copy', 'copies')} may still get about "
        f"{human_bytes(copies * _PAUSED_BYTES)} in each {_METER_SECONDS} seconds"
    )


def _apply(step: Execution, states: list[Wanted]) -> None:
    for _ in range(STEPS + 1):
        now = step.observe(step.wave)
        if not (values := next_rates(step.wave, states, now)):
            break
        with step.changing():
            step.note_returned(now)
            refused = step.set_rates(values)
        if refused:
            raise BallastError(f"some rates are not set, run the command again:{bullets(refused)}")
        time.sleep(STEP_SECONDS)
    now = step.observe(step.wave)
    _say_foreign(step, states, now)
    if missing := unknown(step.wave, now):
        remedy = "run the command again when their brokers answer"
        raise BallastError(f"these rates are unknown, {remedy}:{bullets(missing)}")
    step.say(f"{step.name}: the rates are as wanted")


def _say_waiting(step: Execution) -> None:
    """Say that a command without a living process starts nothing."""
    if waiting := step.wave.by_state(step.observe_settled())[MoveState.NOT_STARTED]:
        command = step.ledger.going_on(step.plan.cluster_id, step.plan.run_id)
        wait = clause(len(waiting), "partition", "waits", "wait")
        step.say(f"{step.name}: {wait}, and no process executes the plan: {command} goes on")


def _say_foreign(step: Execution, states: list[Wanted], now: Observed) -> None:
    for line in foreign(step.wave, states, now):
        step.say(f"left: {line} was set by somebody else and stays")
