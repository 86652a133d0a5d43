"""What Spark needs for folders in S3: JARs, and the properties of Hadoop's S3A for the variables of AWS.

Keys and region reach S3A and deltalake by their usual variables and files; nothing here reads a secret.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from setup.jars import S3, fetch
from setup.options import CommandLine

_URI = re.compile(r"\bs3a?://")
_S3A = "spark.hadoop.fs.s3a"


def is_used(arguments: Sequence[str]) -> bool:
    """Whether an argument of a job, or a configuration file that it names, has an S3 URI."""
    return any(_URI.search(text) for text in (*arguments, *_configurations(arguments)))


def _configurations(arguments: Sequence[str]) -> Iterator[str]:
    for word, after in zip(arguments, (*arguments[1:], ""), strict=False):
        if word.startswith("--config"):
            with suppress(OSError, UnicodeDecodeError):  # the job reports it
                yield Path(word.partition("=")[2] or after).read_text(encoding="utf-8")


def needed(line: CommandLine, environ: Mapping[str, str]) -> tuple[list[Path], dict[str, str]]:
    """JARs, which are downloaded once, and properties that the command line does not set; nothing without S3.

    Raises
    ------
    SetupError
        When a JAR cannot be downloaded, or differs from the lock.
    """
    if not is_used(line.arguments):
        return [], {}
    fetch(S3)
    return S3.files, properties(line, environ)


def properties(line: CommandLine, environ: Mapping[str, str]) -> dict[str, str]:
    """Properties that the command line does not set; ``s3://`` means the same as ``s3a://``."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    ours = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if endpoint:
        # Servers with an address of their own do not resolve names of buckets.
        ours |= {f"{_S3A}.endpoint": endpoint, f"{_S3A}.path.style.access": "true"}
    return {name: value for name, value in ours.items() if line.conf(name) is None}
