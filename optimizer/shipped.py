"""What comes with the code, from the checkout or from the zip that a driver got: the defaults, and which code it is."""

import os
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"  # version of code that neither a zip nor spark-submit.sh names: it may be any
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
    """The code, by its content: as the zip is named, or as spark-submit.sh says of the checkout."""
    named = _ZIP.fullmatch(_HOME.name)
    return named[1] if named else os.environ.get("BALLAST_CODE_VERSION", UNKNOWN)
