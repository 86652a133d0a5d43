"""Records which lines of the checkout run."""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# Limits of one test: a function called more often runs no further lines, and takes long to trace.
_MAX_CALLS, _MAX_LINES = 3_000, 100_000


class LineTracer:
    """Records which lines of the modules in some folders run."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root = str(root) + os.sep
        self._folders = tuple(self._root + folder + os.sep for folder in folders)
        self._lines_of: dict[CodeType, frozenset[int]] = {}
        self._lines_run: dict[CodeType, set[int]] = {}
        self._calls: Counter[CodeType] = Counter()

    def start(self) -> None:
        """Record lines from now on."""
        self._lines_run, self._calls = {}, Counter()
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        """The lines of each module that ran since ``start``."""
        sys.settrace(None)
        threading.settrace(lambda *_: None)
        by_module: dict[str, set[int]] = {}
        for code, lines in self._lines_run.items():
            by_module.setdefault(code.co_filename.removeprefix(self._root), set()).update(lines)
        return {module: sorted(lines) for module, lines in sorted(by_module.items())}

    def _call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        lines = self._lines_of.get(code)
        if lines is None:
            is_watched = code.co_filename.startswith(self._folders)
            lines = frozenset(n for *_, n in code.co_lines() if n) if is_watched else frozenset()
            self._lines_of[code] = lines
        if not lines:
            return None
        recorded = self._lines_run.setdefault(code, set())
        self._calls[code] += 1
        if len(recorded) >= len(lines) or self._calls[code] > _MAX_CALLS:
            return None
        remaining = _MAX_LINES

        def line(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
            nonlocal remaining
            recorded.add(frame.f_lineno)
            remaining -= 1
            return line if remaining else None

        return line(frame, event, argument)
