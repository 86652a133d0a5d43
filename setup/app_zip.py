"""Zips the packages for ``--py-files``. The same content always gives the same file with the same name."""

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from setup.paths import BUILD, HOME, build_folder

PACKAGES = ("optimizer", "schemas", "sources", "stored")
# Data files that the packages read.
_FILES = ("conf/default.toml",)
_EPOCH = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the oldest time that a zip can store; a fixed time, so that the same files give the same zip


def package_files(home: Path = HOME) -> Iterator[tuple[str, bytes]]:
    """Yield the name in the zip and the content of each data file and of each file of the packages, sorted by name."""
    for name in _FILES:
        yield name, (home / name).read_bytes()
    for package in PACKAGES:
        for path in sorted((home / package).rglob("*"), key=lambda p: p.relative_to(home).as_posix()):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(home).as_posix(), path.read_bytes()


def code_version(home: Path = HOME) -> str:
    """Version of the code: 16 hex digits of a hash of its content, the same in every checkout."""
    digest = hashlib.sha256()
    for name, content in package_files(home):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def build(home: Path = HOME, *, folder: Path = BUILD) -> Path:
    """Write the zip if it does not exist; returns its path.

    Raises
    ------
    SetupError
        When it does not exist, and this user cannot write to the checkout.
    """
    target = folder / f"ballast-{code_version(home)}.zip"
    if target.exists():
        return target
    partial = build_folder(folder) / f"{target.stem}.{os.getpid()}.part"
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in package_files(home):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    partial.replace(target)
    return target
