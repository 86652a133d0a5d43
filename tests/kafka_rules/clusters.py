"""Random clusters for invariants."""

from hypothesis import strategies as st

from optimizer.kafka.broker import Broker

RACKS = ("a", "b", "AaAa", "BBBB", "zone-\u00e9")


@st.composite
def racked_clusters(draw: st.DrawFn) -> list[Broker]:
    """Up to twelve brokers in any order, all with a rack or none."""
    ids = draw(st.lists(st.integers(0, 2000), min_size=1, max_size=12, unique=True))
    if draw(st.booleans()):
        return [Broker(i) for i in ids]
    return [Broker(i, draw(st.sampled_from(RACKS))) for i in ids]
