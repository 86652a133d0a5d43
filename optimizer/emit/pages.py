"""Jinja2 templates of this package, read also from a zip."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from optimizer import units


def _text_of(name: str) -> str:
    return files("optimizer.emit").joinpath("templates", name).read_text(encoding="utf-8")


def _environment(*, html: bool) -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text_of), autoescape=html, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "bytes": units.human_bytes,
        "rate": units.human_rate,
        "count": units.human_count,
        "time": units.human_time,
        "percent": units.human_percent,
        "plural": units.plural,
        "agree": units.agree,
    }
    return environment


def render(name: str, **context: Any) -> str:
    """Fill a template of the package. HTML is escaped; a name that ``context`` lacks is an error."""
    return _environment(html=".html" in name).get_template(name).render(**context)
