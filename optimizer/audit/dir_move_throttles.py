"""Checks of the throttles of a wave inside brokers: each broker that copies has exactly one rate."""

from collections.abc import Iterator, Mapping

from optimizer.audit.claims import Violation
from optimizer.audit.instance import Instance
from optimizer.audit.throttles import (
    DATA,
    DOCUMENTS,
    ROLLBACK_DATA,
    STYLES,
    ConfigKey,
    ThrottleData,
    check_script,
    missing_documents,
    read_data,
)

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def check_dir_move_throttles(
    instance: Instance, moved_bytes: Mapping[int, int], folder: str, scripts: Mapping[str, str]
) -> Iterator[Violation]:
    """Check the throttle documents of a wave inside brokers. A wave that copies no bytes needs none.

    Parameters
    ----------
    moved_bytes : mapping of int to int
        The bytes that each broker copies from one directory to another.
    folder : str
        The folder of the wave.
    scripts : mapping of str to str
        All throttle documents by path.
    """
    missing = missing_documents(folder, scripts)
    if missing:
        if len(missing) < len(DOCUMENTS) or any(moved_bytes.values()):
            yield Violation("throttle_missing", folder, f"it lacks {', '.join(missing)}")
    else:
        data = read_data(scripts[f"{folder}/{DATA}"])
        yield from _rates(data, {("brokers", str(broker), RATE) for broker in moved_bytes}, f"{folder}/{DATA}")
        for style in STYLES:
            yield from check_script(instance, data, folder, style, scripts)
    yield from _rollback(folder, scripts)


def _rates(data: ThrottleData, required: set[ConfigKey], path: str) -> Iterator[Violation]:
    """Each broker that copies has the rate of the copies in both forms. Nothing else is set."""
    rate = data.copy_bytes_per_s
    if type(rate) is not int or rate < 1:
        yield Violation("throttle_data", path, "it cannot be read, or has no rate of copies")
        return
    for style in STYLES:
        values = {key: value for key, (value, _) in data.entries[style].items()}
        for key in sorted(required):
            if values.get(key) != str(rate):
                detail = f"{path}, form {style}: {RATE} is {values.get(key, 'missing')}, expected {rate}"
                yield Violation("throttle_rates", f"broker {key[1]}", detail)
        for kind, name, config in sorted(values.keys() - required):
            yield Violation("throttle_extra", path, f"form {style}: {kind} {name} needs no {config}")


def _rollback(folder: str, scripts: Mapping[str, str]) -> Iterator[Violation]:
    """The rollback has the throttles of the wave: the same brokers copy the same bytes back."""
    path, has_data = f"{folder}/{ROLLBACK_DATA}", f"{folder}/{DATA}" in scripts
    if has_data != (path in scripts):
        rule, verb = ("throttle_missing", "lacks") if has_data else ("throttle_extra", "needs no")
        yield Violation(rule, folder, f"it {verb} {ROLLBACK_DATA}")
    elif has_data and read_data(scripts[path]) != read_data(scripts[f"{folder}/{DATA}"]):
        yield Violation("throttle_data", path, f"it differs from {DATA}")
