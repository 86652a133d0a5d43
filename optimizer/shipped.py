"""The default configuration and the version of the code, from the checkout or from the zip of a driver."""

import os
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"  # version of code that neither a zip nor spark-submit.sh names
_HOME = Path(__file__).parent.parent
_DEFAULTS = "conf/default.toml"
_ZIP = re.compile(r"ballast-([0-9a-f]{16})\.zip")


def defaults() -> dict[str, Any]:
    """The values of conf/default.toml."""
    if not zipfile.is_zipfile(_HOME):
        return tomllib.loads((_HOME / _DEFAULTS).read_text(encoding="utf-8"))
    with zipfile.ZipFile(_HOME) as archive:
        return tomllib.loads(archive.read(_DEFAULTS).decode())


def code_version() -> str:
    """A hash of the code: from the name of the zip, or from spark-submit.sh for a checkout."""
    match = _ZIP.fullmatch(_HOME.name)
    return match[1] if match else os.environ.get("BALLAST_CODE_VERSION", UNKNOWN)
