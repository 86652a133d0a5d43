"""Texts of findings about brokers outside a band, and about log directories that fill."""

from collections.abc import Callable, Mapping
from math import isfinite

from optimizer.domain import Cause, FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.units import human_bytes, plural
from optimizer.wording.remedies import WHY_LEFT, remedy_if_left
from optimizer.wording.words import Words, human_load

_LABELS = {"in": "bytes in", "out": "bytes out"}  # of resources with an unclear name
_STUCK = {"fixed": "fixed partitions", "pinned": "pinned topics that have no other broker"}
# The load of a resource that is the furthest over its mean, and under it.
_EXTREMES = {
    "disk": ("fullest disk", "emptiest disk"),
    "replicas": ("largest number of replicas", "smallest number of replicas"),
    "in": ("highest rate of bytes in", "lowest rate of bytes in"),
}

_WHY_DIRS = {
    Cause.STEPS_TOO_LARGE: "each replica that could move would bring a directory outside its band on the other side",
    Cause.NO_DIRECTORY_ROOM: "no directory of the broker has room for a replica that could move",
    Cause.MAY_NOT_LEAVE: "no replica in it may move inside the broker",
    Cause.MAY_NOT_COME: "no replica in the broker's other directories may move",
}


def band(finding: Finding) -> Words:
    """Facts ``width``, ``widest`` (of all brokers), and the facts of the cause."""
    return Words(_subject(finding), _detail(finding, _WHY), _band_remedy(finding))


def waits_to_start(finding: Finding) -> Words:
    """Amount and limit: shares above (positive) or below the mean; without a resource nothing can be compared."""
    remedy = "to plan without waiting, set [policy] start_at = 0"
    if finding.resource is None:
        return Words("cluster", "this plan can change nothing that would start the cluster", remedy)
    amount, limit = (100 * (share or 0) for share in (finding.amount, finding.limit))
    name = _EXTREMES[finding.resource][amount < 0]
    side = "under" if amount < 0 else "over"
    detail = f"{name} {abs(amount):.3g} % {side} its mean; starts at {abs(limit):.3g} %"
    return Words(_subject(finding), detail, remedy)


def leader_band(finding: Finding) -> Words:
    """Facts ``width``, and the facts of the cause."""
    return Words(_subject(finding), _detail(finding, _WHY_LEADERS), _leader_remedy(finding))


def log_dir_fills(finding: Finding) -> Words:
    """Facts ``log_dir`` and ``replicas``; amount and limit are bytes."""
    path, arriving, space = finding.facts["log_dir"], human_bytes(finding.amount or 0), human_bytes(finding.limit or 0)
    return Words(
        f"broker {finding.broker_id} {path}",
        f"Kafka alone would put {plural(finding.facts['replicas'], 'replica')} of {arriving} in {path}, which has the "
        f"fewest logs (an estimate); it has room for {space}, with the space of replicas that leave it",
        "execute the plan with ./ballast: it places replicas by bytes (table dir_balance)",
    )


def log_dir_over(finding: Finding) -> Words:
    """Fact ``log_dir``; amount and limit are bytes."""
    path, used, limit = finding.facts["log_dir"], human_bytes(finding.amount or 0), human_bytes(finding.limit or 0)
    return Words(
        f"broker {finding.broker_id} {path}",
        f"{path} holds {used}, its limit is {limit}; the plan puts nothing into it as long as it holds more",
        "move logs to another directory of this broker, or add disk",
    )


def dir_band(finding: Finding) -> Words:
    """Fact ``log_dir``; amount and limit are bytes: what it holds after the plan, and the end of its band."""
    path, used, end, gap = finding.facts["log_dir"], *map(human_bytes, _sizes(finding))
    side, verb = ("above", "ends") if _is_above(finding) else ("below", "begins")
    why = f"; {_WHY_DIRS[finding.cause]}" if finding.cause in _WHY_DIRS else ""
    remedy = "raise [policy] dir_band, or execute the plan and run again"
    if finding.cause in (Cause.MAY_NOT_LEAVE, Cause.MAY_NOT_COME):
        remedy = "plan again when their topics are not excluded and their reassignments have ended"
    if finding.cause == Cause.NO_DIRECTORY_ROOM:
        remedy = "free space in the directories of this broker, lower [policy] disk_headroom, or add disk"
    return Words(
        f"broker {finding.broker_id} {path}",
        f"{path} holds {used} after the plan, {gap} {side} its band, which {verb} at {end}{why}",
        remedy,
    )


def dirs_not_balanced(finding: Finding) -> Words:
    """No facts."""
    return Words(
        f"broker {finding.broker_id} log directories",
        "they are not balanced: one of them has failed or is cordoned",
        "repair the disk, or delete the broker's config cordoned.log.dirs; then plan again",
    )


def no_log_dir_capacity(finding: Finding) -> Words:
    """Amount: brokers whose directories have known capacities; limit: brokers with several directories."""
    count = int((finding.limit or 0) - (finding.amount or 0))
    return Words(
        f"{plural(count, 'broker')} with several log directories",
        "the capacity of a directory is unknown: it has no limit, and all directories there count as equally large",
        "give the capacity of each directory (docs/formats.md#capacities)",
    )


def _subject(finding: Finding) -> str:
    return f"broker {finding.broker_id} {finding.resource}"


def _is_above(finding: Finding) -> bool:
    return (finding.amount or 0) > (finding.limit or 0)


def _gap(finding: Finding) -> float:
    return abs((finding.amount or 0) - (finding.limit or 0))


def _sizes(finding: Finding) -> tuple[float, float, float]:
    """Amount, limit, and the distance between them."""
    return finding.amount or 0, finding.limit or 0, _gap(finding)


def _detail(finding: Finding, why: Mapping[Cause, Callable[[Finding], str]]) -> str:
    """The distance of the load from its band, and the cause."""
    side, verb = ("above", "ends") if _is_above(finding) else ("below", "begins")
    load, gap, end = (human_load(finding, value) for value in (finding.amount, _gap(finding), finding.limit))
    label = _LABELS.get(finding.resource or "", finding.resource)
    reason = ""
    if finding.cause in WHY_LEFT:
        reason = f"; {WHY_LEFT[finding.cause]}"
    elif finding.cause:
        reason = f"; {why[finding.cause](finding)}"
    return f"{label}: {load}, {gap} {side} the band, which {verb} at {end}{reason}"


def _at_disk_limit(finding: Finding) -> str:
    return f"the band ends at the disk limit (disk_headroom = {finding.facts['disk_headroom']:g})"


def _may_not_leave(finding: Finding) -> str:
    names = {**_STUCK, "forced_only": _forced_only(finding)}
    loads = ", ".join(f"{names[reason]} {human_load(finding, load)}" for reason, load in finding.facts["stuck"].items())
    return f"the replicas that may not leave it already exceed the band: {loads}"


def _may_not_come(finding: Finding) -> str:
    most = human_load(finding, finding.facts["reach"])
    return f"it can hold at most {most}: pins, fixed partitions or {_forced_only(finding)} rule out more"


def _forced_only(finding: Finding) -> str:
    """Partitions that move only if they must."""
    return "partitions that policy.only excludes" if finding.facts["only"] else "excluded topics"


def _large_partition(finding: Finding) -> str:
    return f"{finding.facts['name']} alone ({human_load(finding, finding.facts['load'])}) is above the band"


def _whole_rack(finding: Finding) -> str:
    rack, side = finding.facts["rack"], "upper" if _is_above(finding) else "lower"
    held, ends = (human_load(finding, finding.facts[name]) for name in ("rack_holds", "rack_ends"))
    where = "the cluster" if rack is None else f"rack {rack}"
    return f"{where} holds {held} in total, but the {side} ends of its brokers' bands add up to {ends}"


def _steps_too_large(finding: Finding) -> str:
    replica = f"({finding.facts['name']}, {human_load(finding, finding.facts['load'])})"
    if _is_above(finding):
        return f"moving its smallest movable replica {replica} would bring it below the band"
    return f"the smallest replica that may come {replica} would bring it above the band"


def _leads_alone(finding: Finding) -> str:
    held = human_load(finding, finding.facts["bound"])
    out_of_sync = finding.facts["out_of_sync"]
    also = f"; of {plural(out_of_sync, 'partition')} other replicas are out of sync" if out_of_sync else ""
    why = f"fixed, excluded, or no other replica may lead{also}"
    return f"only this broker may lead partitions with {held} in total ({why})"


def _leads_at_most(finding: Finding) -> str:
    return f"the partitions that it may lead add up to only {human_load(finding, finding.facts['reach'])}"


_WHY = {
    Cause.BAND_ENDS_AT_DISK: _at_disk_limit,
    Cause.MAY_NOT_LEAVE: _may_not_leave,
    Cause.MAY_NOT_COME: _may_not_come,
    Cause.LARGE_PARTITION: _large_partition,
    Cause.WHOLE_RACK: _whole_rack,
    Cause.STEPS_TOO_LARGE: _steps_too_large,
}
_WHY_LEADERS = {
    Cause.MAY_NOT_LEAVE: _leads_alone,
    Cause.MAY_NOT_COME: _leads_at_most,
    Cause.LARGE_PARTITION: _large_partition,
}


def _band_remedy(finding: Finding) -> str:
    resource, width, widest = finding.resource, finding.facts["width"], finding.facts["widest"]
    if finding.cause in WHY_LEFT:
        return remedy_if_left(finding)
    if finding.cause == Cause.BAND_ENDS_AT_DISK:
        return f"no width is enough: add disk, lower disk_headroom, or free {human_load(finding, _gap(finding))}"
    if not isfinite(width):
        return f"widen {resource}_band, let fixed partitions move, or add capacity"
    every = "" if widest <= width else f", {widest:g} is enough for every broker"
    enough = f"{resource}_band = {width:g} is enough for this broker{every}"
    return f"{enough}; or let fixed partitions move, or add capacity"


def _leader_remedy(finding: Finding) -> str:
    width = finding.facts["width"]
    wider = f"{finding.resource}_band = {width:g} is enough for this broker; or " if isfinite(width) else ""
    if _is_above(finding):
        return f"{wider}let the partitions that it leads move, or give them replicas on other brokers that may lead"
    return f"{wider}give it replicas of more partitions"


BY_CODE = {
    FindingCode.BAND: band,
    FindingCode.WAITS_TO_START: waits_to_start,
    FindingCode.LEADER_BAND: leader_band,
    FindingCode.LOG_DIR_FILLS: log_dir_fills,
    FindingCode.LOG_DIR_OVER: log_dir_over,
    FindingCode.DIR_BAND: dir_band,
    FindingCode.DIRS_NOT_BALANCED: dirs_not_balanced,
    FindingCode.NO_LOG_DIR_CAPACITY: no_log_dir_capacity,
}
