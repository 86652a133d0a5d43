"""What a wave is about to change is kept as text, and is enough to undo it."""

import json
from dataclasses import replace

from execution.health import UNDER_REPLICATED, Baseline, baseline_of
from execution.held import changes_of, entries_of, stored_baseline, wave_of
from execution.journal import WaveId
from execution.throttles import Entry
from tests.execution.scene import DONE, MOVING, Scene
from tests.execution.test_preflight import BEFORE, PARTITION, at

WELL = baseline_of(BEFORE)


def test_a_journal_has_the_throttles_with_their_values_before(scene: Scene) -> None:
    """Also None, an empty value and ``*``."""
    keys = sorted(scene.wave.throttles)
    values = [None, "", "*", "7", "0:1,é:2"]
    entries = {key: Entry(value, "5") for key, value in zip(keys, values, strict=True)}
    text = changes_of(scene.wave, entries, WELL)
    assert entries_of(text) == entries
    assert text == changes_of(scene.wave, dict(reversed(entries.items())), WELL)


def test_a_journal_is_sorted(scene: Scene) -> None:
    """Equal waves have equal texts."""
    lists = {PARTITION: (1, 2), ("a", 10): (1, 2), ("a", 9): (2,)}
    wave = replace(scene.wave, before=lists, after=lists)
    text = changes_of(wave, {}, WELL)
    assert [each[:2] for each in json.loads(text)["partitions"]] == [["a", 9], ["a", 10], ["stays", 0]]


def test_a_wave_of_a_journal_can_be_cancelled(scene: Scene) -> None:
    """It has lists, ids and throttles, but no documents; states of partitions are the same."""
    wave = replace(scene.wave, stuck=frozenset({PARTITION}))
    entries = wave.entries(BEFORE)
    rebuilt = wave_of(WaveId(1), changes_of(wave, entries, WELL))
    own = {key: value for key, value in BEFORE.throttles.items() if key in wave.throttles}
    expected = replace(wave, style="", documents={}, previous_throttles=own)
    assert rebuilt == expected
    assert rebuilt.entries(BEFORE) == entries
    recreated = replace(BEFORE, topic_ids={"stays": "new"})
    for now in (BEFORE, MOVING, DONE, recreated, at(1, 4), replace(BEFORE, replicas={})):
        assert rebuilt.state_of(PARTITION, now) == wave.state_of(PARTITION, now)


def test_a_wave_without_throttles_and_ids_is_kept(scene: Scene) -> None:
    """An unknown id stays unknown."""
    wave = replace(scene.wave, throttles={}, previous_throttles={}, topic_ids={}, style="", documents={})
    text = changes_of(wave, {}, WELL)
    assert json.loads(text)["throttles"] == []
    assert wave_of(WaveId(1), text) == replace(wave, topic_ids={"stays": None})


def test_a_journal_keeps_what_was_wrong(scene: Scene) -> None:
    """Brokers and signs."""
    baseline = Baseline(frozenset({1, 3}), frozenset({(UNDER_REPLICATED, "é", 0), ("over its limit", "/d", 2)}))
    text = changes_of(scene.wave, {}, baseline)
    assert stored_baseline(text) == baseline
