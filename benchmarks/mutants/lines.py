"""Which lines of our modules are run, by what is going on."""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# What runs more often in one test shows no further lines, and takes long to watch.
_MOST_CALLS, _MOST_LINES = 3_000, 100_000


class Lines:
    """Which lines of our modules are run, by what is going on."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root = str(root) + os.sep
        self._folders = tuple(self._root + folder + os.sep for folder in folders)
        self._all: dict[CodeType, frozenset[int]] = {}
        self._now: dict[CodeType, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()

    def start(self) -> None:
        """Note what is run from now on."""
        self._now, self._calls = {}, Counter()
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        """Lines of each module that were run since ``start``."""
        sys.settrace(None)
        threading.settrace(lambda *_: None)
        seen: dict[str, set[int]] = {}
        for code, lines in self._now.items():
            seen.setdefault(code.co_filename.removeprefix(self._root), set()).update(lines)
        return {module: sorted(lines) for module, lines in sorted(seen.items())}

    def _call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        lines = self._all.get(code)
        if lines is None:
            ours = code.co_filename.startswith(self._folders)
            lines = frozenset(n for *_, n in code.co_lines() if n) if ours else frozenset()
            self._all[code] = lines
        if not lines:
            return None
        seen = self._now.setdefault(code, set())
        self._calls[code] += 1
        if len(seen) >= len(lines) or self._calls[code] > _MOST_CALLS:
            return None
        left = _MOST_LINES

        def line(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
            nonlocal left
            seen.add(frame.f_lineno)
            left -= 1
            return line if left else None

        return line(frame, event, argument)
