"""Prices from classes of partitions: what they prove, and that there are some whatever the brokers accept."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.generate import generate
from benchmarks.planned import cluster_of
from optimizer.domain import Cluster, Floats
from optimizer.settings import Policy
from optimizer.solve.bounds.class_prices import Classes, class_of_bins, class_prices
from optimizer.solve.rounds.sharding import replicas_stay_in_racks
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, load_scale, replica_weights
from optimizer.solve.rules.resources import DISK
from tests.solve.clusters import (
    lagrangian,
    make_brokers,
    make_cluster,
    make_partitions,
    moved_bytes,
    plan_cluster,
    with_requested_factors,
)
from tests.solve.test_plans import RELAXED


def classes_of(cluster: Cluster) -> Classes:
    """Half octaves of size, octaves of rate, and how the length of the list changes."""
    brokers, partitions = cluster.brokers, cluster.partitions
    scale = load_scale(brokers, demand_of(partitions))
    size = np.maximum(partitions.size_bytes, 1).astype(np.float64)
    rate = np.maximum(partitions.in_bytes_per_s, 1) / size
    size_bin, rate_bin = (np.floor(np.log2(value)).astype(np.int64) for value in (size**2, rate))
    more = partitions.replication_factor - (partitions.replicas >= 0).sum(axis=1)
    of_bins = class_of_bins(size_bin, rate_bin, np.ones(len(size), dtype=np.int64))
    names, of = np.unique(np.stack([np.sign(more), of_bins]), axis=1, return_inverse=True)
    weights = replica_weights(partitions)
    rows = [np.flatnonzero(of == k) for k in range(names.shape[1])]
    load = np.stack([broker_loads(len(brokers), partitions.replicas[r], weights[r]) for r in rows], axis=1)
    mean = np.array([weights[r].mean(axis=0) for r in rows])
    growth = np.array([(partitions.size_bytes * more)[r].sum() for r in rows])
    return Classes(load / scale, mean / scale, growth / scale[DISK])


def prices_of(cluster: Cluster) -> Floats:
    """Prices of the classes, in bytes per mean broker loads."""
    demand = demand_of(cluster.partitions)
    leave = not replicas_stay_in_racks(cluster.brokers, demand.replication_factor)
    scale = load_scale(cluster.brokers, demand)
    return class_prices(cluster.brokers, classes_of(cluster), bands(cluster, Policy()), scale, leave_racks=leave)


@pytest.mark.parametrize(("scenario", "share"), [("drift", 0.9985), ("decom", 0.9999)])
def test_prices_of_classes_prove_nearly_all_of_a_plan(scenario: str, share: float) -> None:
    """Without a look at single partitions; the flow bound proves 0.997 and 0.974 of these plans."""
    cluster = cluster_of(generate("S", scenario, 1), scenario)
    planned = plan_cluster(cluster, Policy())
    assert share * moved_bytes(cluster, planned.replicas) <= lagrangian(cluster, planned, prices_of(cluster))


@st.composite
def closed_racks(draw: st.DrawFn) -> Cluster:
    """Two to four racks, some of whose brokers are to be emptied or take nothing, and lists that may change lengths."""
    n_racks, n_brokers = draw(st.integers(2, 4)), draw(st.integers(4, 9))
    racks = [b % n_racks for b in range(n_brokers)]
    kinds = st.sampled_from(["open", "open", "draining", "excluded"])
    kind = draw(st.lists(kinds, min_size=n_brokers, max_size=n_brokers))
    closed = draw(st.sampled_from([None, *sorted(set(racks))]))
    draining = tuple(b for b, rack in enumerate(racks) if kind[b] == "draining" or rack == closed)
    excluded = tuple(b for b in range(n_brokers) if kind[b] == "excluded")
    brokers = make_brokers(racks, draining=draining, excluded=excluded)
    assume(brokers.accepts_replicas.any())
    factor = draw(st.integers(1, 3))
    lists = [draw(st.permutations(range(n_brokers)))[:factor] for _ in range(12)]
    sizes = draw(st.lists(st.integers(1, 50), min_size=12, max_size=12))
    cluster = make_cluster(brokers, make_partitions([list(x) for x in lists], sizes))
    factors = draw(st.none() | st.lists(st.integers(1, 3), min_size=12, max_size=12))
    return with_requested_factors(cluster, factors) if factors else cluster


@RELAXED
@given(closed_racks())
def test_there_are_prices_whatever_brokers_accept(cluster: Cluster) -> None:
    """Also where a rack is emptied whose replicas have as many other racks left as they are."""
    assert np.isfinite(prices_of(cluster)).all()
