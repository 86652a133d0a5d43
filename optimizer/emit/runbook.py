"""The runbook: exact commands to execute, watch, verify, clean up and roll back."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.domain import WHOLE_PLAN, Cause, FindingCode
from optimizer.emit.calendar import calendar
from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.emit.decision import Decision
from optimizer.emit.directory_lines import overfilled_by_kafka, second_copies
from optimizer.emit.findings import SHOWN, count_findings, first_lines, open_findings
from optimizer.emit.goals import origin
from optimizer.emit.inside_sentences import directories_in_words, moves_in_words, waves_inside, whole_plan
from optimizer.emit.kafka_files import needs_election, numbered
from optimizer.emit.pages import render
from optimizer.emit.proofs import proof
from optimizer.emit.rows import PlanRow, WaveRow
from optimizer.emit.shown_figures import factors_text, gives_up_replicas
from optimizer.emit.summary import execution
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS, PARTITIONS_PER_REQUEST, TOPICS_PER_REQUEST
from optimizer.kafka.versions import has_old_options

_NAMED = 20  # rows of a list in the page
_SHOWN = 80  # characters of a value: lists of throttles are long


@dataclass(frozen=True)
class Step:
    """One wave in the runbook.

    Parameters
    ----------
    form : str
        How the wave is throttled. kafka: ``--throttle`` of the tool; careful: scripts; none: it copies nothing. Waves
        inside brokers have the same forms; the tool's option is ``--replica-alter-log-dirs-throttle``.
    """

    folder: str
    row: WaveRow
    form: str
    names_down_broker: bool


def steps(plan: ClusterPlan) -> list[Step]:
    """The waves with their forms. If a wave names a broker that is down, scripts throttle it (KAFKA-13392)."""
    result = []
    for row in plan.waves:
        down = plan.names_down_broker(row.wave)
        form = "careful" if plan.throttle_style == "careful" or down else "kafka"
        form = form if row.replicas_moved else "none"
        result.append(Step(wave_folder(row.wave, len(plan.waves)), row, form, down))
    return result


def _leads_by_itself(row: PlanRow) -> bool:
    """Whether the preferred leader changes without an election."""
    return row.proposed_replicas[0] != row.current_replicas[0] and not needs_election(row)


def _led_by_another_before(row: PlanRow) -> bool:
    """Whether an election is needed although the preferred leader stays: another replica led at the snapshot."""
    return needs_election(row) and row.proposed_replicas[0] == row.current_replicas[0]


def _without_rollback(plan: ClusterPlan) -> Sequence[str]:
    """Folders of the waves between brokers that have no partition that can be rolled back."""
    waves = [row.wave for row in plan.waves_between]
    without = [wave for wave in waves if not any(map(plan.can_roll_back, plan.changes_of_wave(wave)))]
    return [wave_folder(wave, len(plan.waves)) for wave in without]


def _too_large(plan: ClusterPlan) -> str:
    """Why Kafka refuses the whole plan in one request; empty if it accepts it."""
    partitions, topics = len(plan.changed), len({row.topic for row in plan.changed})
    if partitions > PARTITIONS_PER_REQUEST:
        return (
            f"names {partitions:,} partitions: a controller refuses more than {PARTITIONS_PER_REQUEST:,} in one request"
        )
    if topics > TOPICS_PER_REQUEST:
        return (
            f"names {topics:,} topics: a controller refuses throttle lists of more than {TOPICS_PER_REQUEST:,} at once"
        )
    longest = max((len(row.config_value) for row in plan.throttles if row.wave == WHOLE_PLAN), default=0)
    if longest > CONFIG_VALUE_CHARACTERS:
        return f"needs a throttle list of {longest:,} characters: Kafka takes {CONFIG_VALUE_CHARACTERS:,}"
    return ""


def _earlier_throttles(plan: ClusterPlan) -> list[str]:
    """Throttles that were set before the plan, as text."""
    return [
        f"{row.entity_type} {row.entity_name}: {row.config_name}={row.config_value[:_SHOWN]}"
        for row in plan.throttles_found
    ]


def _names(name: str, rows: Sequence[PlanRow]) -> list[str]:
    return [file for file, _ in numbered(name, rows)]


def runbook(plan: ClusterPlan, decision: Decision) -> str:
    """The runbook in Markdown."""
    partitions = [f"{row.topic}-{row.partition}" for row in plan.not_reversible]
    without, waves, throttles = _without_rollback(plan), steps(plan), _earlier_throttles(plan)
    between, inside = ([step for step in waves if step.row.inside_brokers is side] for side in (False, True))
    elected = [row for row in plan.changed if needs_election(row)]
    open_, open_more = first_lines(open_findings(plan), SHOWN)
    return render(
        "runbook.md.j2",
        plan=plan,
        decision=decision,
        origin=origin(plan),
        open=open_,
        open_more=open_more,
        open_count=count_findings(open_) + open_more,
        steps=waves,
        between=between,
        whole=whole_plan(plan),
        inside=inside,
        inside_names=waves_inside(plan),
        moves_in_words=moves_in_words(plan),
        directories=directories_in_words(plan),
        forms=sorted({step.form for step in between} - {"none"}),
        inside_form=inside[0].form if inside else "",
        earlier_throttles=throttles[:_NAMED],
        earlier_throttles_more=max(len(throttles) - _NAMED, 0),
        old_options=has_old_options(plan.requested.kafka_version),
        too_large=_too_large(plan),
        unthrottled_rate=plan.copy_bytes_per_s if any(step.form == "none" for step in between) else 0,
        rollbacks=_names("rollback", [row for row in plan.changed if plan.can_roll_back(row)]),
        not_reversible_files=_names("rollback-not-possible", plan.not_reversible),
        elections_files=_names("leader-election", elected),
        proof=proof(plan),
        execution=execution(plan),
        calendar=calendar(plan),
        factors=factors_text(plan),
        second_copies=second_copies(plan),
        overfilled=overfilled_by_kafka(plan),
        gives_up_replicas=gives_up_replicas(plan),
        elections=len(elected),
        led_by_another_before=sum(map(_led_by_another_before, plan.changed)),
        elected_by_themselves=sum(_leads_by_itself(row) for row in plan.changed),
        request_limit=PARTITIONS_PER_REQUEST,
        waves_without_rollback=without,
        any_rollback=len(without) < len(between),
        not_reversible=partitions[:_NAMED],
        not_reversible_more=max(len(partitions) - _NAMED, 0),
        cordoned=[broker for broker in plan.drained if broker not in plan.down_brokers],
        emptied=[broker for broker, replicas in plan.replicas_on_leaving.items() if not replicas],
        not_emptied={broker: replicas for broker, replicas in plan.replicas_on_leaving.items() if replicas},
        excused=[r for r in plan.findings if r.code == FindingCode.UNDER_REPLICATED and r.when == "before"],
        in_flight=[row.subject for row in plan.findings if row.cause == Cause.IN_FLIGHT],
        cannot_end=[row.subject for row in plan.findings if row.cause == Cause.MOVE_CANNOT_END],
    )
