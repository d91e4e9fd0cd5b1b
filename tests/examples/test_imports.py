"""The programs import what a user finds: names of the package, or of a module one dot below it."""

import json
import re

from tests.examples.programs import APPS

IMPORT = re.compile(r"^(?:from|import) (ziggurat[\w.]*)", re.MULTILINE)


def test_no_program_imports_from_deeper_than_a_room() -> None:
    texts = [path.read_text(encoding="utf-8") for path in APPS.rglob("*.py")]
    cells = json.loads((APPS / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    texts += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    imported = {name for text in texts for name in IMPORT.findall(text)}
    assert {"ziggurat", "ziggurat.events", "ziggurat.observe"} <= imported
    assert [name for name in sorted(imported) if name.count(".") > 1] == []
