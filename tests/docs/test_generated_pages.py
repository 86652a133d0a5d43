"""docs/tables.md and docs/configuration.md say what schemas/ and conf/default.toml say."""

import tomllib
from pathlib import Path

import pytest

from docs import generate

DOCS = Path(generate.__file__).parent
DEFAULTS = (DOCS.parent / "conf" / "default.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["tables.md", "configuration.md"])
def test_page_is_up_to_date(name: str) -> None:
    """A generated page equals what its script makes now; `make docs` writes it again."""
    assert (DOCS / name).read_text(encoding="utf-8") == generate.pages()[name]


def test_every_knob_is_listed_with_its_default() -> None:
    """The line-wise reading of conf/default.toml finds the sections, names and values that TOML finds."""
    read = [(k.section, k.name, tomllib.loads(f"x = {k.value}")["x"]) for k in generate.knobs(DEFAULTS)]
    parsed = tomllib.loads(DEFAULTS)
    assert read == [(section, name, value) for section, values in parsed.items() for name, value in values.items()]


def test_line_that_is_no_knob_is_refused() -> None:
    """A value that spans lines would be lost, so it is refused with its line."""
    with pytest.raises(ValueError, match="line 2"):
        generate.knobs("[policy]\n  1,\n")


def test_cluster_example_is_valid_toml() -> None:
    """The [[clusters]] example of conf/default.toml can be copied as it is."""
    (cluster,) = tomllib.loads("\n".join(generate.cluster_block(DEFAULTS)))["clusters"]
    assert cluster["id"] == "orders"
