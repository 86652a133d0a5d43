"""The image, built without Docker: a prepared project that the image's user may only read."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.paths import HOME
from tests.pipeline.test_fleet import folder_of
from tests.setup import image

DOCKERFILE = (HOME / "Dockerfile").read_text(encoding="utf-8")


def test_only_what_a_run_needs_is_sent() -> None:
    """The builder gets the packages, jobs, settings and locks; no tests, tables, plans or environments."""
    sent = set(image.context())
    assert {"ballast", "spark-submit.sh", "setup/requirements.lock", "conf/default.toml", "execution/cli.py"} <= sent
    folders = {name.partition("/")[0] for name in sent}
    packages = {"asking", "conf", "execution", "jobs", "optimizer", "schemas", "setup", "sources", "stored", "tour"}
    assert folders == {*packages, "LICENSE", "ballast", "spark-submit.sh"}
    assert not [name for name in sent if "__pycache__" in name]


def test_the_image_does_not_run_as_root() -> None:
    """The last USER of the Dockerfile is a number other than root's."""
    users = [rest for name, rest in image.instructions(DOCKERFILE) if name == "USER"]
    assert int(users[-1]) > 0


def machine(root: Path) -> image.Image:
    """A root file system with only this machine's programs, Python and settings."""
    for name in ("proc", "dev", "sys", "usr", "tmp", "root", "opt/ballast", "home"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shared = [Path("/usr")]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            (root / name).symlink_to(folder.readlink())
        elif folder.is_dir():
            shared.append(folder)
    python = Path(sys.base_prefix)
    if not python.is_relative_to("/usr"):
        shared.append(python)
    for folder in shared:
        (root / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
    shutil.copytree("/etc", root / "etc", symlinks=True)
    for name, line in (("passwd", "root:x:0:0::/root:/bin/sh"), ("group", "root:x:0:"), ("shadow", "root:*:::::::")):
        (root / "etc" / name).write_text(f"{line}\n")
    (root / "etc" / "gshadow").write_text("root:*::\n")
    return image.Image(root, shared=shared, environ={"PATH": f"{python}/bin:{image.PATH}"})


@pytest.fixture(scope="module")
def built_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[image.Image]:
    """The image without the step that installs Python; packages and JARs are copied from this checkout."""
    if not image.can_be_built():
        pytest.skip("only root can mount, and start programs as another user")
    built = machine(tmp_path_factory.mktemp("image") / "root")
    try:
        for name in (".venv", ".jars/delta"):
            shutil.copytree(HOME / name, built.host_path("/opt/ballast") / name, symlinks=True)
        built.build(DOCKERFILE, without="apt-get")
        image.round_times(built.host_path("/opt/ballast"))
        yield built
    finally:
        shutil.rmtree(built.root)


def file_stats(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time and mode of each file and folder."""
    stats = {str(path): path.lstat() for path in (folder, *folder.rglob("*"))}
    return {name: (stat.st_size, stat.st_mtime_ns, stat.st_mode) for name, stat in stats.items()}


@pytest.mark.all_only
def test_a_user_without_rights_plans_and_looks(built_image: image.Image) -> None:
    """The image's user plans with the archive of classes and shows the plan; it writes only to its own folder."""
    ballast, work = built_image.host_path("/opt/ballast"), built_image.host_path("/work")
    before = file_stats(ballast)
    folder_of(work, "in")
    log = "-Xlog:class+load:file=/work/classes.log"
    words = ["--cluster", "orders", "--input", "in", "--drain", "1", "--run-id", "r"]
    planned = built_image.start("pipeline", "--driver-java-options", log, *words)
    assert planned.returncode == 0, planned.stderr[-3000:]
    assert "setup:" not in planned.stderr
    shown = built_image.run(["/opt/ballast/ballast", "show", "--run-id", "r"])
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert "orders" in shown.stdout
    assert file_stats(ballast) == before
    assert {path.name for path in work.iterdir()} == {"in", "out", "warehouse", "spark-warehouse", "classes.log"}
    loaded = (work / "classes.log").read_text()
    from_archive = len(re.findall(r"source: shared objects file \(top\)", loaded))
    assert from_archive > loaded.count(" source: ") / 2 > 5_000
    assert {path.stat().st_uid for path in work.rglob("out/**/*")} == {built_image.user}


@pytest.mark.all_only
@pytest.mark.parametrize(
    ("missing", "words", "code", "more"),
    [
        ("ballast-*.zip", ["pipeline", "--cluster", "orders", "--input", "in"], 1, ""),
        ("classes-*.jsa", ["pipeline", "--help"], 0, "; until then each run with .* takes about 9 s more CPU time"),
    ],
)
def test_a_file_that_cannot_be_made_is_reported_in_one_line(
    built_image: image.Image, missing: str, words: list[str], code: int, more: str
) -> None:
    """If the user may not write, one line says what the owner must run; a run needs no archive of classes."""
    files = {
        path: built_image.host_path("/root") / path.name
        for path in built_image.host_path("/opt/ballast/.build").glob(missing)
    }
    for path, aside in files.items():
        path.rename(aside)
    result = built_image.start(*words)
    for path, aside in files.items():
        aside.rename(path)
    assert result.returncode == code, result.stderr
    remedy = "run 'cd /opt/ballast && python3.11 -m setup.environment' as its owner"
    line = f"setup: the set-up must write to /opt/ballast/.build, but this user has no permission: {remedy}{more}\n"
    assert files and re.fullmatch(line, result.stderr)
