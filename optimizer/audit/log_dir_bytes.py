"""The bytes in the directories of brokers while the waves of a plan run."""

from collections import Counter
from collections.abc import Mapping

from optimizer.audit.instance import Instance
from optimizer.units import plural

Place = tuple[int, str]  # broker id, path of one of its directories


class LogDirBytes:
    """The bytes in each directory, of brokers with several directories. At first as they are before the plan.

    Replicas that leave make space when their wave has ended. So each wave first adds what arrives, then removes what
    leaves.
    """

    def __init__(self, instance: Instance) -> None:
        log_dirs = {(broker, path): log_dir for broker, of in instance.log_dirs.items() for path, log_dir in of.items()}
        self._used = Counter({place: log_dir.used_bytes for place, log_dir in log_dirs.items()})
        limits = {place: instance.log_dir_limit(log_dir) for place, log_dir in log_dirs.items()}
        self._limits = {place: limit for place, limit in limits.items() if limit is not None}

    def add(self, arriving: Mapping[Place, int]) -> list[tuple[str, str]]:
        """Add the bytes that arrive in a wave.

        Returns
        -------
        list of tuple of str
            Name and problem of each directory that gets a replica and is then above its limit, ascending by broker and
            path.
        """
        self._used.update(arriving)
        over = [place for place in sorted(arriving.keys() & self._limits.keys()) if self._is_over(place)]
        return [(f"{path} of broker {broker}", self._problem((broker, path))) for broker, path in over]

    def remove(self, leaving: Mapping[Place, int]) -> None:
        """Remove the bytes that have left when a wave has ended."""
        self._used.subtract(leaving)

    def _is_over(self, place: Place) -> bool:
        return self._used[place] > self._limits[place]

    def _problem(self, place: Place) -> str:
        return f"{plural(self._used[place], 'byte')} during the wave, {self._limits[place]:,} allowed"
