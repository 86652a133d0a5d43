"""docs/solver.md: the planner solves the example as described, and the code names every formula."""

import itertools
import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from benchmarks.planned import rows_of
from optimizer import configuration
from optimizer.domain import Bands, Cluster, Floats, Ints
from optimizer.planning.memory_placement import in_memory
from optimizer.schedule.estimate import Traffic
from optimizer.schedule.throttle_rate import rates_per_broker
from optimizer.solve.bounds.bound import band_price, copies_of, flow_bytes, forced_bytes
from optimizer.solve.bounds.terms import partition_terms
from optimizer.solve.bounds.tighter_bounds import best_whole_bound
from optimizer.solve.certificate import bounds_of, gap_percent
from optimizer.solve.driver import solve_rounds
from optimizer.solve.leaders.leader_bounds import least_changes
from optimizer.solve.leaders.leader_flow import host_loads
from optimizer.solve.leaders.leaders import ChosenLeaders, assign_leaders, lead_with
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.rules.resources import DISK, REPLICAS
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.tuning import TUNED
from tests.docs.pages import ROOT
from tests.solve.clusters import brute_force, make_brokers, make_cluster, make_partitions

PAGE = (ROOT / "docs" / "solver.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("## An example")[2].partition("\n## ")[0]
SENTENCES = " ".join(EXAMPLE.split())
GB = 10**9


def table(first: str) -> list[dict[str, str]]:
    """The rows of the example's table with this first column."""
    lines = EXAMPLE.partition(f"\n| {first} |")[2].partition("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip(" |").split("|")] for line in lines]
    return [dict(zip([first, *head], row, strict=True)) for row in rows]


def numbers(text: str) -> list[int]:
    """The integers in a text."""
    return [int(number) for number in re.findall(r"\d+", text)]


PARTITIONS, BROKERS = table("partition"), table("broker")
PROOFS = {row["proof"].partition(" (")[0]: row for row in table("proof")}


@dataclass(frozen=True)
class Example:
    """The page's cluster before and after its plan; loads and bands are absolute.

    Parameters
    ----------
    after : (P, 2) int64
        Broker indices, the preferred leader first.
    bound, least : int
        Bytes: the best bound, and what the exact search proves.
    """

    cluster: Cluster
    bands: Bands
    before: Floats
    after: Ints
    leaders: ChosenLeaders
    bound: int
    least: int | None

    @property
    def copies(self) -> Ints:
        """Replicas that each partition copies, (P,)."""
        return copies_of(self.cluster.partitions.replicas, self.after)

    @property
    def moved(self) -> int:
        """Bytes copied."""
        return int((self.copies * self.cluster.partitions.size_bytes).sum())

    @property
    def frame(self) -> ClusterFrame:
        """The brokers with their bands, and loads before the plan."""
        scale = load_scale(self.cluster.brokers, demand_of(self.cluster.partitions))
        return ClusterFrame(self.cluster.brokers, self.bands, self.before, scale, TUNED)

    def loads(self, replicas: Ints) -> Floats:
        """Loads of the brokers, (B, D)."""
        return broker_loads(len(self.cluster.brokers), replicas, replica_weights(self.cluster.partitions))


@cache
def example() -> Example:
    """The page's cluster, planned."""
    settings = configuration.build(configuration.read_toml(ROOT / "conf" / "default.toml"))
    width = float(re.search(r"`disk_band` is ([\d.]+)", EXAMPLE)[1])  # type: ignore[index]
    policy = replace(settings.policy, disk_band=width)
    racks = ["ab".index(row["rack"]) for row in BROKERS]
    brokers = replace(make_brokers(racks), ids=np.array([int(row["broker"]) for row in BROKERS]))
    lists = [[broker - 1 for broker in numbers(row["before"])] for row in PARTITIONS]
    cluster = make_cluster(brokers, make_partitions(lists, [int(row["GB"]) * GB for row in PARTITIONS]))
    hosts = {cluster.cluster_id: brokers}
    settings = replace(settings, policy=policy)
    placement, clusters, _ = solve_rounds(in_memory(rows_of(cluster), hosts), settings, TUNED)
    solved, after = clusters[cluster.cluster_id], placement.fleet[cluster.cluster_id].current
    bounds = {row.kind: row.bound_bytes for row in bounds_of(placement, clusters, TUNED).rows[cluster.cluster_id]}
    widths = {"leaders_band": policy.leaders_band, "out_band": policy.out_band}
    leaders = assign_leaders(brokers, cluster.partitions, after, **widths)
    return Example(
        cluster=cluster,
        bands=bands(cluster, policy),
        before=solved.loads_before,
        after=lead_with(after, leaders.chosen),
        leaders=leaders,
        bound=max(bounds[kind] for kind in ("forced", "flow", "lagrangian")),
        least=solved.progress.search_bytes,
    )


def test_lists_are_those_of_the_plan() -> None:
    """The page has the planner's lists, moves, bytes and changed leaders."""
    ids = example().cluster.brokers.ids
    assert [numbers(row["after"]) for row in PARTITIONS] == ids[example().after].tolist()
    assert f"{example().copies.sum()} moves and {example().moved // GB} GB" in SENTENCES
    changed = (example().after[:, 0] != example().cluster.partitions.replicas[:, 0]).sum()
    assert changed == least_changes(example().leaders.choices, example().leaders.choices.bands, np.zeros(4)) == 1
    assert "One change is enough" in SENTENCES


@pytest.mark.parametrize("when", ["before", "after"])
def test_loads_are_those_of_the_lists(when: str) -> None:
    """Replicas, bytes and leaders of each broker."""
    lists = {"before": example().cluster.partitions.replicas, "after": example().after}[when]
    loads = example().loads(lists)
    names = ("replicas", "GB", "leaders")
    stated = [[int(row[f"{name} {when}"]) for name in names] for row in BROKERS]
    led = np.bincount(lists[:, 0], minlength=len(loads))
    assert stated == np.stack([loads[:, REPLICAS], loads[:, DISK] / GB, led], axis=1).astype(int).tolist()
    assert (
        when == "before" or host_loads(example().leaders.choices, example().leaders.arc)[:, 0].tolist() == led.tolist()
    )


def test_bands_are_those_of_the_planner() -> None:
    """Both ends of the bands of replicas, bytes and leaders of each broker."""
    of_replicas, of_leaders = example().bands, example().leaders.choices.bands
    ends = [
        (of_replicas.lower[:, REPLICAS], of_replicas.upper[:, REPLICAS]),
        (of_replicas.lower[:, DISK] / GB, of_replicas.upper[:, DISK] / GB),
        (of_leaders.lower[:, 0], of_leaders.upper[:, 0]),
    ]
    stated = [[numbers(row[f"band, {name}"]) for row in BROKERS] for name in ("replicas", "GB", "leaders")]
    assert stated == [np.stack(pair, axis=1).round(6).tolist() for pair in ends]
    mean = example().loads(example().cluster.partitions.replicas).mean(axis=0)
    assert f"One replica of everything is {2 * mean[DISK] / GB:.0f} GB" in SENTENCES
    assert f"each broker's mean is {mean[DISK] / GB:.0f} GB" in SENTENCES
    assert f"The mean of replicas is {mean[REPLICAS]:.0f}" in SENTENCES
    assert f"{0.9 * mean[REPLICAS]:.1f} to {1.1 * mean[REPLICAS]:.1f}" in SENTENCES
    assert f"leads {of_leaders.mean[0, 0]} partitions in the mean" in SENTENCES


def test_proofs_are_those_of_the_bounds() -> None:
    """Each proof has the figure that its function computes, and the plan copies no more than the best."""
    plan, brokers, partitions = example(), example().cluster.brokers, example().cluster.partitions
    prices = np.zeros((len(brokers), 3))
    prices[3, DISK] = -1
    terms = partition_terms(brokers, partitions, prices, plan.after)
    whole, kept = best_whole_bound(plan.frame, partitions, prices, plan.after)
    proven = {
        "forced": forced_bytes(brokers, partitions, plan.after).sum(),
        "flow": flow_bytes(plan.before, plan.bands, plan.loads(plan.after)),
        "prices": terms.sum() - band_price(prices, plan.bands),
        "one whole broker": whole,
        "exact search": plan.least,
    }
    assert {name: int(row["GB"]) * GB for name, row in PROOFS.items()} == proven
    assert not terms.any()
    assert kept == 4
    assert max(proven.values()) == plan.moved == brute_force(plan.cluster, plan.bands, plan.frame.scale)
    assert round(plan.bound / GB) == 80  # the planner's own prices prove it too, except for rounding
    assert f"gap (15) is {gap_percent(plan.moved, plan.moved):.0f} %" in SENTENCES


def test_sums_of_the_proofs_are_right() -> None:
    """What brokers must give and receive, and the least that whole replicas bring to broker 4 with and without t-5."""
    plan = example()
    load, low, high = plan.before[:, DISK], plan.bands.lower[:, DISK], plan.bands.upper[:, DISK]
    shed, take = np.maximum(load - high, 0) / GB, np.maximum(low - load, 0) / GB
    assert (
        f"broker 4 must receive {take[3]:.0f}; brokers 1 and 3 must shed only {shed[0]:.0f} + {shed[2]:.0f}"
        in SENTENCES
    )
    sizes = (plan.cluster.partitions.size_bytes // GB).tolist()
    sets = [chosen for chosen in itertools.combinations(range(6), 3) if 72 <= sum(sizes[i] for i in chosen) <= 88]
    with_last, without = (
        min((sum(sizes[i] for i in s) + other, [sizes[i] for i in s]) for s in sets if (5 in s) == (other == 0))
        for other in (0, sizes[5])
    )
    assert with_last == (80, [40, 30, 10])
    assert without == (90, [40, 20, 20])
    assert "the other two must hold 62 or more: 40 + 30 is the least, 80 in all" in PROOFS["one whole broker"]["why"]
    least = "must hold 72 or more: 40 + 20 + 20 is the least, and t-5 goes to broker 3: 90 in all"
    assert least in PROOFS["one whole broker"]["why"]


def test_broker_3_has_one_way_to_give_up_two_replicas() -> None:
    """Only one pair of sizes on broker 3 brings it inside its band."""
    plan = example()
    load, low, high = (
        ends[2] / GB for ends in (plan.before[:, DISK], plan.bands.lower[:, DISK], plan.bands.upper[:, DISK])
    )
    sizes = [int(row["GB"]) for row in PARTITIONS if "3" in row["before"].split(", ")]
    fits = {pair for pair in itertools.combinations(sorted(sizes, reverse=True), 2) if low <= load - sum(pair) <= high}
    assert fits == {(40, 30)}
    sentence = f"give up two replicas of {load - high:.0f} to {load - low:.0f} GB together: only 40 + 30 fits"
    assert sentence in SENTENCES


def test_brokers_that_copy_more_have_no_higher_rate() -> None:
    """The page says so, with reasons: a broker with nine times the bytes gets the same rate for copies."""
    assert "All brokers get the same rate for copies." in PAGE
    nothing = np.zeros(3, dtype=np.int64)
    load = Traffic(np.array([900, 100, 0]), np.array([100, 0, 900]), *[nothing] * 4)
    rates = rates_per_broker(load, copy_bytes_per_s=50)
    assert (rates.leader.tolist(), rates.follower.tolist()) == ([50, 50, 0], [50, 0, 50])


def test_formulas_are_numbered_in_order() -> None:
    """The page numbers its formulas from 1, without a gap."""
    formulas = [int(number) for number in re.findall(r"\*\*\((\d+)\)\*\*", PAGE)]
    assert formulas == list(range(1, len(formulas) + 1))


def test_the_code_names_every_formula() -> None:
    """A docstring names every formula of the page, and every number in a docstring is on the page."""
    texts = [" ".join(path.read_text(encoding="utf-8").split()) for path in (ROOT / "optimizer").rglob("*.py")]
    named = [match for text in texts for match in re.findall(r"formulas? ([\d, and]+) of docs/solver\.md", text)]
    on_page = {int(number) for number in re.findall(r"\*\*\((\d+)\)\*\*", PAGE)}
    assert {number for match in named for number in numbers(match)} == on_page
    assert len(re.findall(r"docs/solver\.md", " ".join(texts))) == len(named)
