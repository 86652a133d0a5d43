"""A site's own copy of the file of DAGs."""

import re

from setup.paths import HOME


def of_site(name: str, **own: object) -> str:
    """The file of DAGs, with what a site writes into it."""
    text = (HOME / "dags" / "ballast.py").read_text()
    site = "".join(f"    {field}={value!r},\n" for field, value in own.items())
    written = f"SITE = Site(\n    name={name!r},\n{site})\n"
    edited, count = re.subn(r"SITE = Site\(\n.*?\n\)\n", written, text, flags=re.S)
    assert count == 1
    return edited
