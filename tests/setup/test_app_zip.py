"""The zip of the packages."""

import os
import zipfile
from pathlib import Path

import pytest

from setup import app_zip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout with a file in each package, and the defaults."""
    for package in app_zip.PACKAGES:
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "inner" / "a.py").write_text(f"NAME = {package!r}\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "default.toml").write_text("")
    return tmp_path


def test_equal_content_gives_equal_bytes(home: Path, tmp_path: Path) -> None:
    """File times and byte code change neither the name nor the content of the zip."""
    first = app_zip.build(home, folder=tmp_path / "one")
    for path in home.rglob("a.py"):
        os.utime(path, (1, 1))
    (home / "optimizer" / "__pycache__").mkdir()
    (home / "optimizer" / "__pycache__" / "a.pyc").write_bytes(b"x")
    second = app_zip.build(home, folder=tmp_path / "two")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_changed_content_gives_another_name(home: Path, tmp_path: Path) -> None:
    """A changed line, and a line that moves from one file to another, change the code version."""
    versions = {app_zip.code_version(home)}
    (home / "optimizer" / "inner" / "a.py").write_text("NAME = 1\n")
    versions.add(app_zip.code_version(home))
    (home / "optimizer" / "inner" / "a.py").rename(home / "optimizer" / "inner" / "b.py")
    versions.add(app_zip.code_version(home))
    assert len(versions) == 3


def test_it_holds_the_packages_and_nothing_else(home: Path, tmp_path: Path) -> None:
    """The entries are the packages' files, sorted, and the defaults that they read."""
    (home / "tests").mkdir()
    (home / "tests" / "a.py").write_text("")
    with zipfile.ZipFile(app_zip.build(home, folder=tmp_path / "out")) as archive:
        assert archive.namelist() == [
            "conf/default.toml",
            "optimizer/inner/a.py",
            "schemas/inner/a.py",
            "sources/inner/a.py",
            "stored/inner/a.py",
        ]
