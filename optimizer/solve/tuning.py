"""Tuned numbers of the algorithm, and switches for parts of it.

They are not knobs: no cluster needs its own values. ``docs/ablations.md`` shows the effect of each. A tuning is part of
the cluster's round, so every process solves with the same tuning.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """How hard the algorithm tries.

    Parameters
    ----------
    deals_by_load : bool
        Deal brokers to shards in the order of their load; else in a random order.
    deal_swaps : int
        Swaps of brokers to try, to make shards similar.
    owners_by_fullness : bool
        A partition is owned by the shard of its fullest broker; else by turn.
    wide_cells : int
        Most (replica, broker) pairs of a shard that are all considered: about 25 MB for each array of them.
    per_pair, near_per_pair : int
        Options of each (source, target): added to a relaxation at a time; available to the improvement.
    plan_prices, short_curve_prices, curve_prices : tuple of float
        Prices of one move to try, in mean replica sizes: in most rounds; in the first balancing round of a large
        cluster; and of a small one. The first price is for the least bytes.
    gap : float
        More plans are tried if the plan for the least bytes is above its bound by more than this share of the bytes.
    thresholds, more_thresholds : tuple of float
        Least parts of a replica that are rounded to a whole move; each gives a plan. More of them if moves are few.
    tie_break, few_moves_tie_break, gap_tie_break : float
        Extra cost of a replica of the mean size, as a share of its bytes: in a plan for the least bytes; in a plan with
        few moves (many small replicas round well, but each is a move); in a second try.
    decides_scarce : bool
        Second tries first decide the replicas that the scarcest brokers give and take.
    exchanges : bool
        Improve a rounded plan by transfers.
    penalties : tuple of float
        Penalties in bytes for a unit of load outside the bands, one for each stage of the improvement; in the last
        stage the bands come first.
    spare : float
        Mean broker loads by which bands are narrowed if brokers stay outside.
    swap_pairs : int
        Most pairs of replicas to compare for a shard that is stuck outside its bands: about two seconds.
    exact_cells : int
        Most (partition, broker) pairs of a cluster that is searched as a whole.
    exact_time_limit, feasible_time_limit : float
        Deterministic time of that search, with and without a plan inside the bands to start from. If such a plan
        exists, the search finds it soon.
    scarce_close : float
        Mean broker loads: a choice for one broker this near to its bound is accepted.
    wide_gap : float
        Gap to the bound of several shards, as a share, above which one relaxation around the whole plan is tried.
    whole_gap : float
        Gap to the bound by prices, as a share, above which a bound by the whole replicas of one broker is tried.
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
        """The highest price on moves for which a plan is for the least bytes."""
        return self.plan_prices[0]

    @property
    def violation_bytes(self) -> float:
        """Penalty in bytes for a unit of load outside the bands, if the bands come first."""
        return self.penalties[-1]


TUNED = Tuning()
