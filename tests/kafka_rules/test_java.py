"""The parts of Java that placement uses."""

import pytest

from optimizer.errors import KafkaError
from optimizer.kafka.java import (
    JavaRandom,
    hash_map_copy_capacity,
    hash_map_order,
    hash_set_capacity,
    integer_hash,
    power_of_two_at_least,
    string_hash,
    topic_partition_hash,
    utf16_key,
)


@pytest.mark.parametrize(("text", "code"), [("", 0), ("hello", 99162322), ("AaAa", 2031744), ("BBBB", 2031744)])
def test_string_hash(text: str, code: int) -> None:
    """Strings have Java's hash codes."""
    assert string_hash(text) == code


def test_hash_codes_wrap_at_32_bits() -> None:
    """A long name, a negative number and a large partition stay within 32 bits, unsigned."""
    assert string_hash("polygenelubricants") == 2**31
    assert string_hash("a" * 249) < 2**32
    assert integer_hash(-1) == 2**32 - 1
    assert topic_partition_hash(("polygenelubricants", 2**31 - 1)) == (31 * (31 + 2**31 - 1) + 2**31) % 2**32


def test_topic_partition_hash() -> None:
    """A partition's hash code starts from its number and adds the topic's."""
    assert topic_partition_hash(("hello", 2)) == 31 * 33 + 99162322


def test_random_numbers() -> None:
    """Seed 42 gives the numbers that Java gives."""
    random = JavaRandom(42)
    assert [random.next_int(100) for _ in range(5)] == [30, 63, 48, 84, 70]


def test_random_refuses_no_bound() -> None:
    """A bound of 0 raises Java's error."""
    with pytest.raises(KafkaError, match="bound must be positive"):
        JavaRandom(1).next_int(0)


def test_strings_sort_by_utf16_units() -> None:
    """A character outside the basic plane sorts before U+FF5E, as in Java, but not in Python."""
    assert sorted(["\uff5e", "\U0001f600"], key=utf16_key) == ["\U0001f600", "\uff5e"]


@pytest.mark.parametrize(("size", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_table_size(size: int, power: int) -> None:
    """Tables of a HashMap have a power of two as length."""
    assert power_of_two_at_least(size) == power


def test_capacity_of_copies() -> None:
    """A copied set has at least 16 buckets, a copied map may have fewer."""
    assert [hash_set_capacity(n) for n in (0, 11, 12, 24)] == [16, 16, 32, 64]
    assert [hash_map_copy_capacity(n) for n in (0, 3, 12, 24)] == [1, 8, 32, 64]


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ([3, 1, 2], [1, 2, 3]),
        ([16, 0, 1], [16, 0, 1]),
        ([0, 16, 1], [0, 16, 1]),
        ([17, 1, 17, 33], [17, 1, 33]),
        ([*range(13), 16], [*range(13), 16]),
    ],
)
def test_map_order_of_integers(keys: list[int], order: list[int]) -> None:
    """Keys come by bucket, then by insertion; the table doubles beyond three quarters."""
    assert hash_map_order(keys, integer_hash) == order


def test_compute_if_absent_prepends() -> None:
    """computeIfAbsent puts a colliding key first."""
    assert hash_map_order([0, 16, 1], integer_hash, insertion="compute_if_absent") == [16, 0, 1]


@pytest.mark.parametrize(("later_calls", "order"), [([], [16, 0]), ([0], [0, 1])])
def test_compute_if_absent_grows_before_it_looks(later_calls: list[int], order: list[int]) -> None:
    """The thirteenth key leaves 16 buckets, but the next call, even for a key that is there, makes them 32."""
    keys = [*range(12), 16, *later_calls]
    assert hash_map_order(keys, integer_hash, insertion="compute_if_absent")[:2] == order
