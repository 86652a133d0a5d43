"""Respects a site's folder of Spark settings (SPARK_CONF_DIR), and adds the properties that Ballast needs."""

import re
from collections.abc import Mapping
from pathlib import Path

from setup.options import CommandLine
from setup.paths import HOME

CONF = HOME / "conf"
_FILE = "spark-defaults.conf"
# A list: Delta's extension is appended to the site's.
_EXTENSIONS = "spark.sql.extensions"


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder of settings that Spark reads: the site's folder, or else ``conf``."""
    return environ.get("SPARK_CONF_DIR") or str(CONF)


def properties(line: CommandLine, environ: Mapping[str, str]) -> dict[str, str]:
    """Our Spark properties that neither the site's folder nor the command line sets."""
    folder = Path(folder_of(environ))
    if folder.resolve() == CONF:
        return {}
    theirs, ours = _read(folder / _FILE), _read(CONF / _FILE)
    added = {name: value for name, value in ours.items() if name not in theirs and line.conf(name) is None}
    extensions = theirs.get(_EXTENSIONS, "")
    if extensions and ours[_EXTENSIONS] not in extensions and line.conf(_EXTENSIONS) is None:
        added[_EXTENSIONS] = f"{extensions},{ours[_EXTENSIONS]}"
    return added


def _read(path: Path) -> dict[str, str]:
    """The properties in a file of Spark; empty if the file does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    pairs = (re.split(r"\s*[=:\s]\s*", text.strip(), maxsplit=1) for text in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
