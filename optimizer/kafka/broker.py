"""A broker as Kafka's placement sees it."""

from typing import NamedTuple


class Broker(NamedTuple):
    """One broker.

    Parameters
    ----------
    broker_id : int
    rack : str or None
        None where the broker has no rack.
    fenced : bool
        Registered but not alive; only the striped placer uses such brokers, and last.
    """

    broker_id: int
    rack: str | None = None
    fenced: bool = False
