"""A site: its copy of the DAG file, its settings, and the summary of its plan."""

import re

from deltalake import DeltaTable

from setup.paths import HOME
from stored.tables import Warehouse
from tests.execution.warehouse import CLUSTER, RUN

SETTINGS = f"""\
[[clusters]]
id = "{CLUSTER}"
bootstrap_servers = "{{servers}}"
[storage]
warehouse = "{{home}}/{{scene}}"
"""


def of_site(name: str, **own: object) -> str:
    """The DAG file with a site's values."""
    text = (HOME / "dags" / "ballast.py").read_text()
    site = "".join(f"    {field}={value!r},\n" for field, value in own.items())
    block = f"SITE = Site(\n    name={name!r},\n{site})\n"
    edited, count = re.subn(r"SITE = Site\(\n.*?\n\)\n", block, text, flags=re.S)
    assert count == 1
    return edited


def summarise(warehouse: Warehouse, text: str, decision: str) -> None:
    """Give the plan a summary and another decision; questions show the decision."""
    DeltaTable(f"{warehouse.path}/documents").delete(f"path = '{CLUSTER}/decision.json'")
    row = {"cluster_id": CLUSTER, "run_id": RUN, "wave": 0, "sha256": ""}
    for name, kind, content in (("summary.txt", "summary", text), ("decision.json", "decision", decision)):
        warehouse.append("documents", [{**row, "path": f"{CLUSTER}/{name}", "kind": kind, "content": content}])
