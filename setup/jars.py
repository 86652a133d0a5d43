"""Fetches JARs by Apache Ivy, which pyspark carries, and checks each against a lock of sha256 sums.

``python -m setup.jars kafka`` fetches Kafka's broker and tools, which the acceptance test runs, into ``.jars/kafka``;
``kafka39`` the tools of an older release, which scripts have to run with too.
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

# Maven's "bundle" (snakeyaml and others) are JARs too; without them Kafka's tools don't start.
_TYPES = ("jar", "bundle")


@dataclass(frozen=True)
class JarSet:
    """JARs that are fetched together.

    Parameters
    ----------
    name : str
        Of the folder in ``.jars``.
    """

    name: str

    @property
    def folder(self) -> Path:
        """Where the JARs lie."""
        return JARS / self.name

    @property
    def ivy(self) -> Path:
        """The Ivy module that names what is wanted."""
        return SETUP / f"{self.name}-ivy.xml"

    @property
    def lock(self) -> Path:
        """Lines ``sha256  file`` as sha256sum writes them."""
        return SETUP / f"{self.name}-jars.lock"


DELTA = JarSet("delta")
KAFKA = JarSet("kafka")
KAFKA39 = JarSet("kafka39")


def read_lock(text: str) -> dict[str, str]:
    """Map each file name of a lock to its sha256."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def digests(folder: Path) -> dict[str, str]:
    """Map the name of each JAR of a folder to its sha256."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def differences(found: Mapping[str, str], locked: Mapping[str, str]) -> list[str]:
    """Say in words where fetched JARs differ from the lock."""
    missing = [f"{name} is missing" for name in sorted(locked.keys() - found.keys())]
    surplus = [f"{name} is not in the lock" for name in sorted(found.keys() - locked.keys())]
    changed = [
        f"{name} has sha256 {found[name]}, the lock says {locked[name]}"
        for name in sorted(found.keys() & locked.keys())
        if found[name] != locked[name]
    ]
    return missing + surplus + changed


def is_ready(jars: JarSet) -> bool:
    """Whether the folder was filled and checked from the lock as it is now."""
    stamp = jars.folder / "lock"
    return stamp.exists() and stamp.read_bytes() == jars.lock.read_bytes()


def delta_jars() -> list[Path]:
    """Delta's JARs, by name."""
    return sorted(DELTA.folder.glob("*.jar"))


def fetch(jars: JarSet) -> None:
    """Fill the folder of a set, once; nothing unchecked ever lies in it.

    Raises
    ------
    SetupError
        When a JAR can't be fetched, or differs from the lock.
    """
    if is_ready(jars):
        return
    with exclusive(f"jars-{jars.name}"):
        if is_ready(jars):
            return
        fresh = BUILD / f"fetched-{jars.name}"
        shutil.rmtree(fresh, ignore_errors=True)
        report = _retrieve(jars, fresh)
        wrong = differences(digests(fresh), read_lock(jars.lock.read_text()))
        if wrong:
            raise SetupError(f"JARs for {jars.name}: {'; '.join(wrong[:3])} ({len(wrong)} in all); Ivy said: {report}")
        shutil.copyfile(jars.lock, fresh / "lock")
        shutil.rmtree(jars.folder, ignore_errors=True)
        jars.folder.parent.mkdir(exist_ok=True)
        fresh.rename(jars.folder)


def _retrieve(jars: JarSet, folder: Path) -> str:
    """Run Ivy; it exits 0 on a failed download, so the caller checks the files. Returns its last words."""
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
    """Java's form of the proxy that the environment names."""
    options = []
    for scheme in ("http", "https"):
        proxy = urlsplit(environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or "")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options


def main(names: list[str]) -> int:
    """Fetch the named sets; returns the exit code."""
    sets = {jars.name: jars for jars in (DELTA, KAFKA, KAFKA39)}
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
