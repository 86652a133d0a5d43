"""When a job needs what Spark lacks for S3, and the properties for another server than Amazon's."""

from pathlib import Path

import pytest

from setup import object_storage
from setup.options import split


@pytest.mark.parametrize(
    ("arguments", "configuration", "expected"),
    [
        ([], "", False),
        (["--warehouse", "tables"], "", False),
        (["--warehouse", "s3a://b/w"], "", True),
        (["--input=s3://b/in"], "", True),
        (["--config", "FILE"], '[storage]\nwarehouse = "s3://b/w"', True),
        (["--config=FILE"], '[[clusters]]\ninput = "s3a://b/in"', True),
        (["--config", "FILE"], '[storage]\nwarehouse = "hdfs://s3/w"', False),
        (["--config", "missing.toml"], "", False),
        (["--config"], "", False),
    ],
)
def test_an_s3_uri_anywhere_needs_its_jars(
    arguments: list[str], configuration: str, expected: bool, tmp_path: Path
) -> None:
    """Among the arguments, or in the configuration that they name."""
    file = tmp_path / "site.toml"
    file.write_text(configuration)
    assert object_storage.is_used([word.replace("FILE", str(file)) for word in arguments]) == expected


def test_the_address_of_a_server_reaches_s3a() -> None:
    """Keys do not; and what the command line sets stays."""
    environ = {"AWS_ENDPOINT_URL": "http://h:1", "AWS_SECRET_ACCESS_KEY": "secret"}
    found = object_storage.properties(split(["pipeline"]), environ)
    assert {name.removeprefix("spark.hadoop.fs."): value for name, value in found.items()} == {
        "s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "s3a.endpoint": "http://h:1",
        "s3a.path.style.access": "true",
    }
    line = split(["--conf", "spark.hadoop.fs.s3a.endpoint=http://other", "pipeline"])
    assert "spark.hadoop.fs.s3a.endpoint" not in object_storage.properties(line, environ)
    assert [*object_storage.properties(line, {})] == ["spark.hadoop.fs.s3.impl"]
