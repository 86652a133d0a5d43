"""A wave that runs is ended: what is in flight goes back to where it was."""

from collections.abc import Callable

from execution.kafka_tools import KafkaTools
from execution.observed import Observed, Place
from execution.preflight import names
from execution.wave import Stand, Wave


def cancel_wave(
    wave: Wave, tools: KafkaTools, *, look: Callable[[], Observed], say: Callable[[str], None]
) -> list[Place]:
    """Cancel what is in flight of a wave, and put its lists back in order; returns what was cancelled.

    A second try after one that ended half-way finds the lists that still lack their order.

    Kafka gives a cancelled partition its old replicas in another order. To put them in order copies nothing. What is
    done stays done: to take that back is a copy of its own, under a throttle.
    """
    moving = wave.stands(look())[Stand.IN_FLIGHT]
    if moving:
        tools.reassign({place: wave.after[place] for place in moving}, "--cancel", "--preserve-throttles")
        say(f"cancelled: {names(moving)}")
    now = look()
    turned = {place: wave.before[place] for place in wave.after if _is_turned(place, wave, now)}
    if turned:
        tools.reassign(turned, "--execute", "--additional")
        say(f"lists in order again: {names(turned)}")
    left = [place for place in wave.stands(now)[Stand.OTHER] if place not in turned]
    if left:
        say(f"neither as before nor as planned, look at them: {names(left)}")
    return moving


def _is_turned(place: Place, wave: Wave, now: Observed) -> bool:
    """Whether a partition has the replicas of before, in another order, and Kafka takes that one."""
    before, replicas = wave.before[place], now.replicas.get(place, ())
    is_other = wave.stand(place, now) is Stand.OTHER and place not in now.in_flight
    return is_other and place not in wave.stuck and sorted(before) == sorted(replicas)
