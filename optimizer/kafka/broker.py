"""A broker in Kafka's placement."""

from typing import NamedTuple


class Broker(NamedTuple):
    """One broker.

    Parameters
    ----------
    broker_id : int
    rack : str or None
        None if the broker has no rack.
    fenced : bool
        Registered but not alive. Only the striped placer uses such brokers, after all others.
    """

    broker_id: int
    rack: str | None = None
    fenced: bool = False
