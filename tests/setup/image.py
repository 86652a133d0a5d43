"""Executes the Dockerfile without Docker, in a folder with a root file system.

``python -m tests.setup.image ROOT`` builds the image in ROOT, a bare Debian, rounds file times as an image does, and
plans the sample cluster as the image's user. It must run as root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from setup.paths import HOME

# Runs in its own mount namespace, so that nothing stays mounted: mounts the kernel's folders and the shared ones.
_ENTER = """\
root=$1 owner=$2
shift 2
for folder in /proc /dev /sys; do mount --rbind "$folder" "$root$folder"; done
while [ "$1" != -- ]; do
    mount --bind "$1" "$root$1"
    mount -o remount,bind,ro "$root$1"
    shift
done
shift
exec chroot --userspec="$owner" --groups= "$root" "$@"
"""
# Docker's value if the base image sets none.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMESPACE = ("unshare", "--mount", "--propagation", "private")


def can_be_built() -> bool:
    """Whether this process may mount; root may on most machines, but in few containers."""
    if os.geteuid() or not shutil.which("unshare"):
        return False
    return not subprocess.run([*_NAMESPACE, "mount", "--bind", "/tmp", "/tmp"], capture_output=True).returncode


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile and its arguments, joined into one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(name, rest.strip()) for name, _, rest in pairs]


def is_sent(name: str, patterns: Sequence[str]) -> bool:
    """Whether a file is sent to the builder: the last matching line of .dockerignore decides."""
    path = PurePosixPath(name)
    sent = True
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        if any(fnmatchcase(str(part), plain) for part in (path, *path.parents[:-1])):
            sent = pattern.startswith("!")
    return sent


def context(home: Path = HOME) -> Iterator[str]:
    """Names of the files that are sent to the builder."""
    lines = (home / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    for folder, inner, files in os.walk(home):
        names = {name: (Path(folder) / name).relative_to(home).as_posix() for name in (*inner, *files)}
        inner[:] = [name for name in inner if is_sent(names[name], patterns)]
        yield from sorted(names[name] for name in files if is_sent(names[name], patterns))


@dataclass
class Image:
    """An image, and its container.

    Parameters
    ----------
    root : Path
        Folder with the root file system.
    shared : sequence of Path
        Folders of this machine that are mounted in it, read-only.
    """

    root: Path
    shared: Sequence[Path] = ()
    environ: dict[str, str] = field(default_factory=dict)
    user: int = 0
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)

    def host_path(self, path: str) -> Path:
        """The path on this machine of a path in the image."""
        return self.root / path.lstrip("/")

    def build(self, text: str, *, without: str = "-") -> None:
        """Execute a Dockerfile, except the RUN commands that begin with ``without``."""
        for name, rest in instructions(text):
            match name:
                case "ARG" | "FROM":  # the root file system exists already
                    continue
                case "RUN":
                    if not rest.startswith(without):
                        self.step(rest)
                case "COPY":
                    self.copy(rest)
                case "WORKDIR":
                    self.folder = rest
                    self.host_path(rest).mkdir(parents=True, exist_ok=True)
                case "USER":
                    self.user = int(rest)
                case "ENTRYPOINT":
                    self.entrypoint = json.loads(rest)
                case _:
                    raise ValueError(f"instruction {name} is not supported")

    def step(self, text: str) -> None:
        """Run a shell command that must succeed."""
        result = self.run(["/bin/sh", "-c", text])
        if result.returncode:
            output = f"{result.stdout[-2000:]}{result.stderr[-2000:]}"
            raise RuntimeError(f"{text} ended with {result.returncode}:\n{output}")

    def copy(self, words: str) -> None:
        """Copy the whole context into the working folder; the only form of COPY in the Dockerfile."""
        if words != ". .":
            raise ValueError(f"COPY {words} is not supported")
        for name in context():
            target = self.host_path(self.folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, target)

    def run(
        self, command: Sequence[str], *, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the root file system, as the image's user."""
        [(group, home)] = [
            (fields[3], fields[5])
            for fields in (line.split(":") for line in self.host_path("/etc/passwd").read_text().splitlines())
            if int(fields[2]) == self.user
        ]
        variables = {"PATH": PATH, **self.environ, "HOME": home, **(environ or {})}
        inside = ["env", "-i", f"--chdir={self.folder}", *map("=".join, variables.items()), *command]
        enter = [*_NAMESPACE, "sh", "-euc", _ENTER, "sh", str(self.root), f"{self.user}:{group}"]
        return subprocess.run(
            [*enter, *map(str, self.shared), "--", *inside],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Start the container with these arguments."""
        return self.run([*self.entrypoint, *words])


def round_times(folder: Path) -> None:
    """Round the time of each file down to whole seconds, as image layers do."""
    for path in (folder, *folder.rglob("*")):
        stat = path.lstat()
        os.utime(path, (int(stat.st_atime), int(stat.st_mtime)), follow_symlinks=False)


def size_bytes(folder: Path) -> int:
    """Disk space of the files in a folder; files with several hard links count once."""
    sizes = {(stat.st_dev, stat.st_ino): stat.st_blocks * 512 for stat in map(Path.lstat, folder.rglob("*"))}
    return sum(sizes.values())


def main(words: list[str]) -> int:
    """Build the image, start it, and print times and sizes; returns the exit code."""
    image = Image(Path(words[0]).resolve())
    base, started = size_bytes(image.root), time.monotonic()
    image.build((HOME / "Dockerfile").read_text(encoding="utf-8"))
    built = time.monotonic()
    round_times(image.host_path("/opt/ballast"))
    result = image.start()
    ended = time.monotonic()
    print(result.stdout, result.stderr, sep="\n")
    print(f"base {base / 1e6:.0f} MB, image {size_bytes(image.root) / 1e6:.0f} MB")
    print(f"built in {built - started:.0f} s; the sample ended with {result.returncode} after {ended - built:.0f} s")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
