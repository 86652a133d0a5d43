"""The archive of loaded classes, and the wrapper that hands it to Java."""

import os
import subprocess
from pathlib import Path

import pytest

from setup import classes
from setup.jars import delta_jars
from setup.java import QUIET_HOME, java, spark_java
from setup.paths import HOME, spark_home

CONF = str(HOME / "conf")
DRIVER = ("-cp", f"/a.jar:{CONF}/:/b/*", "org.apache.spark.deploy.SparkSubmit", "--master", "local")
LAUNCHER = ("-cp", "/b/*", "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit")


def started(tmp_path: Path, *arguments: str, **environ: str) -> list[str]:
    """Arguments that the wrapper gives to Java."""
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    clean = {"PATH": os.environ["PATH"], "SPARK_CONF_DIR": CONF, "BALLAST_JAVA": str(program), **environ}
    command = [str(QUIET_HOME / "bin" / "java"), *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_driver_starts_from_the_archive(tmp_path: Path) -> None:
    """Java gets the archive, and the configuration folder comes after all JARs, because Java stops at a folder."""
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"x")
    words = started(tmp_path, *DRIVER, BALLAST_CLASSES=str(archive))
    assert words[:2] == [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]
    assert words[2:] == ["-cp", f"/a.jar:/b/*:{CONF}/", *DRIVER[2:]]


@pytest.mark.parametrize("content", [None, b""])
def test_no_archive_is_no_option(tmp_path: Path, content: bytes | None) -> None:
    """If there is no archive, or it is empty, Java gets no option for it."""
    archive = tmp_path / "classes.jsa"
    if content is not None:
        archive.write_bytes(content)
    assert started(tmp_path, *DRIVER, BALLAST_CLASSES=str(archive))[0] == "-cp"


def test_other_programs_get_no_archive(tmp_path: Path) -> None:
    """Spark's launcher, which names the driver's class in its arguments, starts unchanged."""
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"x")
    assert started(tmp_path, *LAUNCHER, BALLAST_CLASSES=str(archive)) == list(LAUNCHER)


def test_the_class_path_does_not_depend_on_the_order_of_files(tmp_path: Path) -> None:
    """Spark's JARs are listed one by one, sorted and without duplicates, whatever the order of files in the folder."""
    for name in ("b.jar", "C.jar", "a.jar", "d.txt"):
        (tmp_path / name).write_text("")
    given = f"/x.jar:{CONF}/:{tmp_path}/b.jar:{tmp_path}/*:/etc/hadoop/"
    words = started(tmp_path, "-cp", given, "org.apache.spark.deploy.SparkSubmit", LC_ALL="C.UTF-8")
    assert words[1] == f"/x.jar:{tmp_path}/b.jar:{tmp_path}/C.jar:{tmp_path}/a.jar:/etc/hadoop/:{CONF}/"


def test_making_leaves_the_configuration_folder_out(tmp_path: Path) -> None:
    """Java archives no class that comes after a folder in the class path, so there is no folder."""
    base = tmp_path / "base.jsa"
    base.write_bytes(b"x")
    words = started(tmp_path, *DRIVER, BALLAST_CLASSES=str(base), BALLAST_CLASSES_MADE="/made.jsa")
    assert "-XX:ArchiveClassesAtExit=/made.jsa" in words
    assert words[words.index("-cp") + 1] == "/a.jar:/b/*"


def test_java_uses_the_archive_of_the_set_up(tmp_path: Path) -> None:
    """A driver loads Spark's classes from it, with any Java that the set-up found."""
    log = tmp_path / "classes.log"
    environ = {**os.environ, **spark_java(), "SPARK_HOME": str(spark_home()), "SPARK_CONF_DIR": CONF}
    environ["BALLAST_CLASSES"] = str(classes.archive(java(), delta_jars()))
    options = ["--driver-class-path", classes.class_path(delta_jars())]
    options += ["--driver-java-options", f"-Xlog:class+load:file={log}"]
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local", *options, "--version"]
    subprocess.run(command, env=environ, capture_output=True, check=True)
    loaded = log.read_text()
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in loaded


def test_an_invalid_archive_is_ignored(tmp_path: Path) -> None:
    """Java starts without a warning if the file is no archive."""
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"no archive" * 1000)
    command = [str(QUIET_HOME / "bin" / "java"), "-cp", f"{spark_home()}/jars/*"]
    environ = {**os.environ, "BALLAST_JAVA": str(java()), "BALLAST_CLASSES": str(archive), "SPARK_CONF_DIR": CONF}
    result = subprocess.run(
        [*command, "org.apache.spark.deploy.SparkSubmit", "--version"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "cds" not in (result.stdout + result.stderr).lower()


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    """The name depends on Java and on every JAR, because Java would reject an archive of others."""
    other = tmp_path / "java"
    other.write_text("")
    assert classes.archive(java(), delta_jars()) != classes.archive(other, delta_jars())
    assert classes.archive(other, delta_jars()) == classes.archive(other, delta_jars())
    assert classes.archive(other, delta_jars()) != classes.archive(other, delta_jars()[:1])


def test_the_name_does_not_depend_on_file_times(tmp_path: Path) -> None:
    """JARs with other file times have the same archive; JARs of another size have another."""
    jar = tmp_path / "a.jar"
    jar.write_text("a")
    name = classes.archive(java(), [jar])
    os.utime(jar, (1, 1))
    assert classes.archive(java(), [jar]) == name
    jar.write_text("ab")
    assert classes.archive(java(), [jar]) != name


def test_the_set_up_has_tried_to_make_an_archive() -> None:
    """Tests run after the set-up; with or without success, it does not try again."""
    assert classes.is_made(delta_jars())
