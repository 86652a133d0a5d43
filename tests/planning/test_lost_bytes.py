"""The setting ``acks_one_topics``: figures, findings, and a pattern that no topic matches."""

from asking.answer import answer
from asking.question import Question
from optimizer.domain import FindingCode
from tests.asking.small_run import BROKERS, make_facts, partition

ROWS = [partition(topic, number, [1, 3, 5]) for topic in ("clicks", "audit") for number in range(4)]


def test_topics_with_acks_1_lose_what_followers_lack() -> None:
    """45 seconds of 1 MB/s for each partition that the worst broker leads; without the setting nothing is lost."""
    facts = make_facts(BROKERS, ROWS, policy={"acks_one_topics": ["cli.*", "nobody"]})
    plan = answer(facts, Question()).plan
    assert plan is not None
    figures = plan.tables["plan_summary"].set_index("figure")
    assert figures.loc["lost_by_worst_broker_bytes", "before"] == 4 * 45_000_000
    found = plan.tables["wave_findings"]
    assert found[found["code"] == FindingCode.LOSES_RECORDS]["topic"].tolist() == ["clicks"]
    unused = plan.tables["findings"]
    assert unused[unused["code"] == FindingCode.ACKS_UNUSED]["subject"].tolist() == ["nobody"]
    without = answer(make_facts(BROKERS, ROWS), Question()).plan
    assert without is not None
    [row] = without.tables["plan_summary"].query("figure == 'lost_by_worst_broker_bytes'").to_dict("records")
    assert (row["before"], row["worst_moment"], row["after"]) == (0, 0, 0)
