"""The parts of Java that Kafka's placement uses: Random, shuffle, hash codes, and the order of a HashMap.

References
----------
java.util.Random, Collections.shuffle and HashMap, java.lang.String.hashCode and Integer.parseInt, JDK 17;
org.apache.kafka.common.TopicPartition.hashCode, Kafka 4.3.1.
"""

from collections.abc import Callable, Iterable, MutableSequence
from typing import Literal, TypeVar

from optimizer.errors import KafkaError

K = TypeVar("K")
T = TypeVar("T")

Insertion = Literal["put", "compute_if_absent"]

_MULTIPLIER = 0x5DEECE66D  # java.util.Random: its linear congruential step
_INCREMENT = 0xB  # the same
_MASK_48 = (1 << 48) - 1  # bits of its seed
_MASK_32 = (1 << 32) - 1  # bits of an int
_INT_MAX = (1 << 31) - 1  # of an int
_DEFAULT_CAPACITY = 16  # buckets of a new java.util.HashMap


class JavaRandom:
    """java.util.Random: a linear congruential generator of 48 bits.

    Parameters
    ----------
    seed : int
        A Java long; its lower 48 bits count.
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK_48

    def _next_31_bits(self) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK_48
        return self._state >> 17

    def next_int(self, bound: int) -> int:
        """Draw from 0 to ``bound`` - 1.

        Raises
        ------
        KafkaError
            When ``bound`` is not positive.
        """
        if bound <= 0:
            raise KafkaError("IllegalArgumentException", "bound must be positive")
        drawn = self._next_31_bits()
        if bound & (bound - 1) == 0:
            return (bound * drawn) >> 31
        value = drawn % bound
        # Java detects by an overflow that the value is in the last, incomplete range of `bound` values, and draws
        # again.
        while drawn - value + bound - 1 > _INT_MAX:
            drawn = self._next_31_bits()
            value = drawn % bound
        return value

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Collections.shuffle: swap in place, from the end."""
        for size in range(len(items), 1, -1):
            index = self.next_int(size)
            items[size - 1], items[index] = items[index], items[size - 1]


def utf16_key(text: str) -> bytes:
    """Key that sorts as String.compareTo does: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned number of 32 bits."""
    units = utf16_key(text)
    result = 0
    for at in range(0, len(units), 2):
        result = (31 * result + (units[at] << 8 | units[at + 1])) & _MASK_32
    return result


def optional_hash(text: str | None) -> int:
    """Hash code of an Optional of String; None is Optional.empty."""
    return 0 if text is None else string_hash(text)


def integer_hash(value: int) -> int:
    """Integer.hashCode as an unsigned number of 32 bits."""
    return value & _MASK_32


def topic_partition_hash(key: tuple[str, int]) -> int:
    """TopicPartition.hashCode of (topic, partition)."""
    topic, partition = key
    return (31 * (31 + partition) + string_hash(topic)) & _MASK_32


def power_of_two_at_least(size: int) -> int:
    """The table length of a HashMap for a requested capacity."""
    return 1 << max(0, size - 1).bit_length()


def hash_set_capacity(size: int) -> int:
    """Table length of ``new HashSet<>(collection)`` for a collection of ``size``."""
    return power_of_two_at_least(max(size * 4 // 3 + 1, _DEFAULT_CAPACITY))


def hash_map_copy_capacity(size: int) -> int:
    """Table length of ``new HashMap<>(map)``, which may be below the default (JDK 17; later JDKs round differently)."""
    return power_of_two_at_least(size * 4 // 3 + 1)


def hash_map_order(
    keys: Iterable[K],
    hash_of: Callable[[K], int],
    *,
    capacity: int = _DEFAULT_CAPACITY,
    insertion: Insertion = "put",
) -> list[K]:
    """The iteration order of a java.util.HashMap or HashSet.

    Parameters
    ----------
    keys : iterable
        Keys in the order of insertion, repetitions included.
    hash_of : callable
        Java's hash code as an unsigned number of 32 bits.
    capacity : int
        Initial table length, a power of two; it doubles when more than three quarters are full.
    insertion : {"put", "compute_if_absent"}
        ``put`` appends to a bucket, then grows the table. ``computeIfAbsent`` first grows the table, also for an
        existing key, then inserts at the head of the bucket.

    Notes
    -----
    Exact unless a bucket becomes a tree, which needs eight keys in a bucket of a table of 64 or more.
    """
    calls = list(keys)
    distinct = list(dict.fromkeys(calls))
    prepends = insertion == "compute_if_absent"
    last_is_new = bool(calls) and calls.index(calls[-1]) == len(calls) - 1
    while len(distinct) - (prepends and last_is_new) > capacity * 3 // 4:
        capacity *= 2

    def position(numbered_key: tuple[int, K]) -> tuple[int, int]:
        number, key = numbered_key
        code = hash_of(key)
        return (code ^ code >> 16) & (capacity - 1), -number if prepends else number

    return [key for _, key in sorted(enumerate(distinct), key=position)]
