"""Jinja2 templates of this package, read also from a zip."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from optimizer import units
from optimizer.cluster_policy import BYTES_PER_GB

_SHORT_GB = 10  # GB: smaller sizes are shown with a digit after the point


def text_of(name: str) -> str:
    """The text of a template or a style sheet."""
    return files("optimizer.emit").joinpath("templates", name).read_text(encoding="utf-8")


@cache  # a site of a year has a thousand pages: each template is compiled once
def _environment(*, html: bool) -> Environment:
    environment = Environment(
        loader=FunctionLoader(text_of), autoescape=html, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "bytes": units.human_bytes,
        "rate": units.human_rate,
        "count": units.human_count,
        "time": units.human_time,
        "times": lambda row: units.human_times(row.least_seconds, row.most_seconds),
        "percent": units.human_percent,
        "plural": units.plural,
        "agree": units.agree,
        "pos": _position,
        "share": "{:.0f}".format,
        "tenth": "{:,.1f}".format,
        "gb": _gigabytes,
        "moment": units.human_moment,
        "iso": _iso,
    }
    return environment


def _position(percent: float) -> str:
    """A position in a drawing: short, because a page has thousands."""
    return f"{percent:.1f}".rstrip("0").rstrip(".")


def _gigabytes(size_bytes: float) -> str:
    """In GB (10^9 bytes), with a digit after the point below ten."""
    size = size_bytes / BYTES_PER_GB
    return f"{size:,.0f}" if size >= _SHORT_GB or not size_bytes else f"{size:.1f}"


def _iso(unix_seconds: int) -> str:
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def render(name: str, **context: Any) -> str:
    """Fill a template of the package. HTML is escaped; a name that ``context`` lacks is an error."""
    return _environment(html=".html" in name).get_template(name).render(**context)
