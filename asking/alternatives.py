"""Alternatives to the plan of a run, as questions."""

from asking.question import Question
from asking.run_facts import RunFacts
from optimizer.cluster_policy import BYTES_PER_GB

_BANDS = ("disk_band", "replicas_band", "leaders_band", "in_band", "out_band")
_ANY_LOAD = 100.0  # a band this wide is never left: the largest that a policy accepts

_DIGITS = 3  # after the decimal point of a limit in GB: whole MB


def alternatives(facts: RunFacts, moved_bytes: float | None) -> list[Question]:
    """This plan; wider bands; only what is urgent; half the bytes; no limit.

    Parameters
    ----------
    moved_bytes : float, optional
        That the run's plan copies; without it, or if it is 0, half of them is no alternative.
    """
    policy = facts.settings.policy
    wide = {name: min(2 * getattr(policy, name), _ANY_LOAD) for name in _BANDS}
    questions = [
        Question("this plan"),
        Question("bands x 2", knobs={"policy": wide}),
        Question("only urgent", knobs={"policy": dict.fromkeys(_BANDS, _ANY_LOAD)}),
    ]
    if moved_bytes:
        half = {"max_moved_gb": round(moved_bytes / 2 / BYTES_PER_GB, _DIGITS)}
        questions.append(Question("half the bytes", knobs={"policy": half}))
    [requests] = facts.settings.cluster_policies().values()
    if requests.max_moved_gb or requests.max_moves:
        questions.append(Question("no limit", knobs={"policy": {"max_moved_gb": 0.0, "max_moves": 0}}))
    return questions
