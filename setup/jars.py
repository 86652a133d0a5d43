"""Downloads JARs with Apache Ivy, which is part of pyspark, and checks each against a lock file of sha256 sums.

``python -m setup.jars kafka`` downloads Kafka's broker and tools for the acceptance test into ``.jars/kafka``.
``python -m setup.jars kafka39`` downloads the tools of Kafka 3.9, because the plan's scripts must work with them too.
``python -m setup.jars kafka-tiered`` downloads Kafka's tiered storage in a local folder, for the tests.
``python -m setup.jars s3`` downloads what Spark needs for a warehouse or inputs in S3; jobs do that themselves.
``python -m setup.jars hadoop`` downloads HDFS and YARN, for the tests.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from setup.java import java, trust_options
from setup.locking import exclusive
from setup.paths import BUILD, JARS, SETUP, SetupError, spark_home

# Maven's type "bundle" (snakeyaml and others) is also a JAR; Kafka's tools do not start without them.
_TYPES = ("jar", "bundle")


@dataclass(frozen=True)
class JarSet:
    """JARs that are downloaded together.

    Parameters
    ----------
    name : str
        Name of the folder in ``.jars``.
    """

    name: str

    @property
    def folder(self) -> Path:
        """Folder of the JARs."""
        return JARS / self.name

    @property
    def files(self) -> list[Path]:
        """The JARs, sorted by name."""
        return sorted(self.folder.glob("*.jar"))

    @property
    def ivy(self) -> Path:
        """The Ivy module file that lists the JARs."""
        return SETUP / f"{self.name}-ivy.xml"

    @property
    def lock(self) -> Path:
        """Lock file: lines ``sha256  file``, the format of sha256sum."""
        return SETUP / f"{self.name}-jars.lock"


DELTA = JarSet("delta")
KAFKA = JarSet("kafka")
KAFKA39 = JarSet("kafka39")
KAFKA_TIERED = JarSet("kafka-tiered")
S3 = JarSet("s3")
HADOOP = JarSet("hadoop")


def read_lock(text: str) -> dict[str, str]:
    """Sha256 of each file in a lock, by file name."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def digests(folder: Path) -> dict[str, str]:
    """Sha256 of each JAR in a folder, by file name."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def differences(actual: Mapping[str, str], locked: Mapping[str, str]) -> list[str]:
    """Describe each difference between JARs and their lock."""
    missing = [f"{name} is missing" for name in sorted(locked.keys() - actual.keys())]
    surplus = [f"{name} is not in the lock" for name in sorted(actual.keys() - locked.keys())]
    changed = [
        f"{name} has sha256 {actual[name]}, the lock says {locked[name]}"
        for name in sorted(actual.keys() & locked.keys())
        if actual[name] != locked[name]
    ]
    return missing + surplus + changed


def is_ready(jars: JarSet) -> bool:
    """Whether the folder has the JARs of the current lock."""
    stamp = jars.folder / "lock"
    return stamp.exists() and stamp.read_bytes() == jars.lock.read_bytes()


def delta_jars() -> list[Path]:
    """Delta's JARs, sorted by name."""
    return DELTA.files


def fetch(jars: JarSet) -> None:
    """Download a set of JARs, once. JARs reach its folder only after the check.

    Raises
    ------
    SetupError
        When a JAR cannot be downloaded, or differs from the lock.
    """
    if is_ready(jars):
        return
    with exclusive(f"jars-{jars.name}"):
        if is_ready(jars):
            return
        fresh = BUILD / f"fetched-{jars.name}"
        shutil.rmtree(fresh, ignore_errors=True)
        ivy_message = _retrieve(jars, fresh)
        problems = differences(digests(fresh), read_lock(jars.lock.read_text()))
        if problems:
            raise SetupError(
                f"JARs for {jars.name}: {'; '.join(problems[:3])} ({len(problems)} problems); Ivy said: {ivy_message}"
            )
        shutil.copyfile(jars.lock, fresh / "lock")
        shutil.rmtree(jars.folder, ignore_errors=True)
        jars.folder.parent.mkdir(exist_ok=True)
        fresh.rename(jars.folder)


def _retrieve(jars: JarSet, folder: Path) -> str:
    """Run Ivy; returns its last line. Ivy exits with 0 even if a download fails, so the caller checks the files."""
    program = java()
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")
    command = [str(program), *trust_options(program), *proxy_options(os.environ), "-jar", str(ivy)]
    settings = os.environ.get("BALLAST_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    command += ["-ivy", str(jars.ivy), "-confs", "default", "-types", *_TYPES]
    command += ["-retrieve", f"{folder.resolve()}/[artifact]-[revision].[ext]"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.strip() for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else f"nothing (exit code {result.returncode})"


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java's options for the proxy in the environment."""
    options = []
    for scheme in ("http", "https"):
        proxy = urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options


def main(names: list[str]) -> int:
    """Download the named sets; returns the exit code."""
    sets = {jars.name: jars for jars in (DELTA, KAFKA, KAFKA39, KAFKA_TIERED, S3, HADOOP)}
    unknown = sorted(set(names) - set(sets))
    if unknown or not names:
        print(f"usage: python -m setup.jars {' | '.join(sets)}", file=sys.stderr)
        return 2
    for name in names:
        try:
            fetch(sets[name])
        except SetupError as error:
            print(f"setup: {error}", file=sys.stderr)
            return 1
        print(sets[name].folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
