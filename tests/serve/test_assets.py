"""The files of the page: small, complete, without anything that its content security policy forbids."""

import re
from pathlib import Path

import ziggurat.serve.routes
from ziggurat.serve.guard import SECURITY_HEADERS
from ziggurat.serve.routes import assets

FOLDER = Path(ziggurat.serve.routes.__file__).parent / "page"
FILES = sorted(FOLDER.iterdir())
OWN = [path for path in FILES if path.suffix == ".js" and path.name not in ("preact.js", "hooks.js", "htm.js")]


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) <= 88_000
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= 400


def test_every_file_is_served_and_nothing_else() -> None:
    for path in FILES:
        body, _, etag = assets()[path.name]
        assert body == path.read_bytes()
        assert re.fullmatch(r'"[0-9a-f]{16}"', etag)
    wrong = (
        "",
        ".",
        "..",
        "../app.py",
        "../assets.py",
        "page/style.css",
        "/etc/passwd",
        "style.css\n",
        "STYLE.css",
        "no.js",
    )
    assert assets().keys().isdisjoint(wrong)


def test_every_name_in_a_file_is_that_of_a_file() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        names = re.findall(r'from ?"\./([^"]+)"', text) + re.findall(r'(?:href|src)="/page/([^"]+)"', text)
        assert not {name for name in names if name not in assets()}, path.name


def test_nothing_is_inline_and_nothing_is_fetched_from_elsewhere() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", index)
    for path in [*OWN, FOLDER / "style.css"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://", text
        )
    assert "'unsafe" not in SECURITY_HEADERS["content-security-policy"]


def test_the_licences_of_others_are_in_the_package() -> None:
    text = (FOLDER.parent / "licences" / "page.txt").read_text(encoding="utf-8")
    assert all(word in text for word in ("Preact 11.2.0", "The MIT License", "htm 3.1.1", "Apache License"))
