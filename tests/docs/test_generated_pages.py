"""docs/tables.md and docs/configuration.md agree with schemas/ and conf/default.toml."""

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from docs import generate
from optimizer.approval_setting import Approval
from optimizer.configuration import build

DOCS = Path(generate.__file__).parent
DEFAULTS = (DOCS.parent / "conf" / "default.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["tables.md", "configuration.md"])
def test_page_is_up_to_date(name: str) -> None:
    """A stored page equals the page that its script makes now; `make docs` writes it again."""
    assert (DOCS / name).read_text(encoding="utf-8") == generate.pages()[name]


def test_every_knob_is_listed_with_its_default() -> None:
    """Reading conf/default.toml by line gives the sections, names and values of a TOML parser."""
    read = [(k.section, k.name, tomllib.loads(f"x = {k.value}")["x"]) for k in generate.knobs(DEFAULTS)]
    parsed = tomllib.loads(DEFAULTS)
    assert read == [(section, name, value) for section, values in parsed.items() for name, value in values.items()]


def test_line_without_a_knob_is_refused() -> None:
    """A value that spans lines would be lost, so the error names the line."""
    with pytest.raises(ValueError, match="line 2"):
        generate.knobs("[policy]\n  1,\n")


def test_cluster_example_is_valid_toml() -> None:
    """The [[clusters]] example of conf/default.toml can be copied unchanged."""
    (cluster,) = tomllib.loads("\n".join(generate.example(DEFAULTS, "[[clusters]]")))["clusters"]
    assert cluster["id"] == "orders"


def test_the_example_of_approval_has_every_rule() -> None:
    """The [approval] example of conf/default.toml can be copied unchanged."""
    content = tomllib.loads("\n".join(generate.example(DEFAULTS, "[approval]")))
    assert set(content["approval"]) == {field.name for field in fields(Approval)}
    approval = build(content).approval
    assert approval and approval.rules_of("orders").most_moved_bytes == 100e9
