"""The first sentence of an answer: what its figures say about the question."""

from collections.abc import Sequence

from asking.answer import Answer
from optimizer.emit.figure_table import UNDONE, left_undone
from optimizer.planning.plan_figures import Figures
from optimizer.units import SECONDS_PER_HOUR, agree, clause, human_bytes, human_percent, human_times, plural


def sentence(run: Figures, answers: Sequence[Answer]) -> str:
    """One sentence about all answers.

    Parameters
    ----------
    run : mapping
        Figures of the run's plan.
    answers : sequence of Answer
        To questions that nothing has chosen.
    """
    asked = [item for item in answers if not item.question.changes_nothing] or answers
    if len(asked) == 1:
        return _one(run, asked[0])
    if any(item.question.changes_cluster for item in asked):
        return f"{'; '.join(map(_short, asked))}."
    return _least(run, asked)


def _one(run: Figures, item: Answer) -> str:
    if not item.plan:
        return f"This {item.shortage.words() if item.shortage else 'has no plan'}."
    figures = item.compared
    costs, of_run = _costs(figures), _costs(run)
    compared = "as this run does" if costs == of_run else f"this run {of_run}"
    text = f"The plan {costs}, {compared}"
    if item.question.changes_cluster:
        disk = _disk(figures)
        text = f"{f'{_stopped(figures)}; the' if item.question.loses else 'The'} plan {costs}"
        text += f", then the fullest disk is at {disk}" if disk else ""
    left = left_by(figures)
    return f"{text}; {f'it leaves {left}' if left else 'racks, bands and drains are met'}."


def _stopped(figures: Figures) -> str:
    """What a loss stops at once."""
    stopped, offline = (round(figures.get(name, (None, None))[0] or 0) for name in ("stopped_without_loss", "offline"))
    if not stopped and not offline:
        return "All partitions take writes now"
    leaderless = f", {offline:,} {agree(offline, 'has', 'have')} no leader" if offline else ""
    return f"{clause(stopped, 'partition', 'takes', 'take')} no writes now{leaderless}"


def _short(item: Answer) -> str:
    """One of several answers about other clusters."""
    if not item.plan:
        return f"{item.question.name} does not fit"
    disk = _disk(item.compared)
    return f"{item.question.name} {_costs(item.compared)}{f', fullest disk {disk}' if disk else ''}"


def _least(run: Figures, answers: Sequence[Answer]) -> str:
    """The plan that copies least of those that reach as much as the run; a plan that keeps brokers does not."""
    planned = [item for item in answers if item.plan]
    if not planned:
        return f"None of these {plural(len(answers), 'plan')} fits."
    reaching = [item for item in planned if not item.question.keep and not _reaches_less(item.compared, run)]
    best = min(reaching or planned, key=lambda item: item.compared["moved_bytes"][1] or 0)
    costs, number = _costs(best.compared), plural(len(answers), "plan")
    cheapest = f"the cheapest, {best.question.name}, {costs}"
    if reaching:
        most = f"{len(reaching)} of these {number} {agree(len(reaching), 'reaches', 'reach')} as much as this run"
        return f"{most}: {f'{best.question.name} {costs}' if len(reaching) == 1 else cheapest}, this run {_costs(run)}."
    left = left_by(best.compared)
    also = f", and leaves {left}" if left else ""
    return f"None of these {number} reaches as much as this run; {cheapest}{also}."


def _reaches_less(figures: Figures, run: Figures) -> bool:
    return any((figures[name][1] or 0) > (run[name][1] or 0) for name in UNDONE)


def _costs(figures: Figures) -> str:
    """What a plan copies, as the words after its name."""
    copied, least, most = (figures[name][1] for name in ("moved_bytes", "least_hours", "most_hours"))
    if copied:
        if least is None or most is None:
            return f"copies {human_bytes(copied)}"
        return f"copies {human_bytes(copied)} in {human_times(least * SECONDS_PER_HOUR, most * SECONDS_PER_HOUR)}"
    leaders = round(figures["leader_changes"][1] or 0)
    return f"copies nothing and changes {plural(leaders, 'leader')}" if leaders else "copies nothing"


def _disk(figures: Figures) -> str:
    fullest = figures["fullest_disk_percent"][1]
    return "" if fullest is None else human_percent(fullest)


def left_by(figures: Figures) -> str:
    """What a plan leaves undone, in words; empty if it leaves nothing."""
    return left_undone({name: figures[name][1] or 0 for name in UNDONE})
