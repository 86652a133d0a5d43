"""Numbers of the algorithm that were tried out, and parts of it that can be left out.

They are no knobs: nobody has to set them for a cluster. ``docs/ablations.md`` shows what each is worth. A tuning
travels with the round of a cluster, so that every process solves with the one that was asked for.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """How hard the algorithm tries.

    Parameters
    ----------
    deals_by_load : bool
        Shards get brokers in the order of their load; else in a random order.
    deal_swaps : int
        Pairs of brokers that are looked at to make shards alike.
    owners_by_fullness : bool
        A partition is owned by the shard of its fullest broker; else by turn.
    wide_cells : int
        Most (replica, broker) pairs of a shard that are all looked at: some 25 MB for each array of them.
    per_pair, near_per_pair : int
        Options of each (source, target) that a relaxation gets at a time, and that the improvement may use.
    plan_prices, short_curve_prices, curve_prices : tuple of float
        Prices of one move that are tried, in mean replica sizes: in most rounds, and in the first round that balances
        a large and a small cluster. The first price is the one for the least bytes.
    gap : float
        Share of the bytes copied that a plan for the least bytes may lie above its bound before more is tried.
    thresholds, more_thresholds : tuple of float
        Part of a replica from which on it is rounded to a whole move: a plan for each; more where moves are few.
    tie_break, few_moves_tie_break, gap_tie_break : float
        What a replica of the mean size costs more, as a share of its bytes: in a plan for the least bytes, in one with
        few moves (many small replicas round well, but each is a move), and for a second look at a gap.
    decides_scarce : bool
        Second looks decide first what the scarcest brokers give and take.
    exchanges : bool
        A rounded plan is improved by transfers.
    penalties : tuple of float
        Bytes that a unit of load outside the bands is worth, one stage of the improvement after the other; in the last
        the bands come first.
    spare : float
        Mean broker loads by which bands are narrowed where brokers stay outside.
    swap_pairs : int
        Most pairs of replicas that are looked at for a shard that is stuck outside its bands: about two seconds.
    exact_cells : int
        Most (partition, broker) pairs of a cluster whose placements are all searched.
    exact_time_limit, feasible_time_limit : float
        Deterministic time of that search, with and without a plan inside the bands to start from: where there is one,
        it is found soon.
    scarce_close : float
        Mean broker loads: a choice for one broker this near to its bound will do.
    wide_gap : float
        Share above a bound of several shards from which on one relaxation around the whole plan is tried for it.
    whole_gap : float
        Share above a bound by prices from which on a bound by the whole replicas of one broker is tried.
    """

    deals_by_load: bool = True
    deal_swaps: int = 20_000
    owners_by_fullness: bool = True
    wide_cells: int = 3_000_000
    per_pair: int = 24
    near_per_pair: int = 24
    plan_prices: tuple[float, ...] = (0.003, 0.03, 0.1)
    short_curve_prices: tuple[float, ...] = (0.003, 0.03, 0.1, 0.8, 4.0)
    curve_prices: tuple[float, ...] = (0.003, 0.03, 0.1, 0.3, 0.8, 2.0, 4.0, 8.0)
    gap: float = 1e-3
    thresholds: tuple[float, ...] = (0.5, 0.9)
    more_thresholds: tuple[float, ...] = (0.5, 0.9, 0.3, 0.7)
    tie_break: float = 0.001
    few_moves_tie_break: float = 0.0003
    gap_tie_break: float = 0.005
    decides_scarce: bool = True
    exchanges: bool = True
    penalties: tuple[float, ...] = (1.05, 3.0, 1e4)
    spare: float = 1e-3
    swap_pairs: int = 50_000_000
    exact_cells: int = 1000
    exact_time_limit: float = 2.0
    feasible_time_limit: float = 1.0
    scarce_close: float = 2.0**-14
    wide_gap: float = 2e-3
    whole_gap: float = 1e-3

    @property
    def bytes_price(self) -> float:
        """The price on moves up to which a plan is for the least bytes."""
        return self.plan_prices[0]

    @property
    def violation_bytes(self) -> float:
        """Bytes that a unit of load outside the bands is worth where the bands come first."""
        return self.penalties[-1]


TUNED = Tuning()
