"""Takes what `make conformance` reads from the public repositories that hold it, with git.

    python -m tests.conformance.fetch [FOLDER] [--from ADDRESS]     (needs git, and PyYAML: pip install pyyaml)

`recordings.txt` names each recording: repository, commit and licence; folder; file, with the places of the recordings
in it. All are cassettes of VCR, written by tests of other projects while they called a provider. FOLDER is that of
ZIGGURAT_CORPORA by default, or `corpora` in the project. Nothing of it belongs to the project.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.conformance.corpora import JSON, ROOT, SCHEMAS, TRAFFIC

SUITES = {
    SCHEMAS: ("json-schema-org/JSON-Schema-Test-Suite", "44401e0c046704b476ec9d2e2fccdaee618f259d", "tests"),
    JSON: ("nst/JSONTestSuite", "1ef36fa01286573e846ac449e8683f8833c5b26a", "test_parsing"),
}
"""Archive to the repository, the commit and the folder that it is made of."""
RECORDINGS = Path(__file__).with_name("recordings.txt")
ENDPOINTS = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}

Record = dict[str, Any]


class Source(NamedTuple):
    """A repository at a commit, and the places of recordings in its files."""

    repository: str
    commit: str
    files: dict[str, list[int]]


def sources(text: str) -> list[Source]:
    """Read the list of recordings."""
    found, folder = list[Source](), ""
    for line in text.splitlines():
        if not line.startswith(" "):
            repository, commit, _ = line.split(" ", 2)
            found.append(Source(repository, commit, {}))
        elif not line.startswith("    "):
            folder = line.strip()
        elif file := re.fullmatch(r"    ([\d ]+) (\D.*)", line):
            found[-1].files[f"{folder}/{file[2]}"] = [int(place) for place in file[1].split()]
    return found


# -- cassettes -------------------------------------------------------------------------------------------------------


def cassette(text: bytes) -> list[Record]:
    """Read the interactions of a cassette, as Python's VCR or Ruby's and R's wrote it."""
    yaml: Any = import_module("yaml")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """A safe loader that knows the tag of Ruby's bytes too."""

    Loader.add_constructor("!binary", lambda loader, node: b64decode(node.value))
    held = yaml.load(text, Loader)
    interactions: list[Record] = held.get("interactions") or held["http_interactions"]
    return interactions


def record(interaction: Record) -> Record:
    """Return one interaction with its body unpacked."""
    request, response = interaction["request"], interaction["response"]
    address = urlsplit(request["uri"])
    status = response.get("status", response.get("status_code"))
    if isinstance(status, dict):
        status = status["code"]
    sent = json.loads(_body(request) or "{}")
    return {
        "host": address.netloc,
        "endpoint": next((name for end, name in ENDPOINTS.items() if address.path.endswith(end)), ""),
        "stream": bool(sent.get("stream")) and status == 200,
        "request": sent,
        "status": status,
        "body": _body(response).decode("utf-8", "replace"),
    }


def _body(side: Record) -> bytes:
    """Return the body of a request or a reply; one that a cassette holds parsed is written as JSON again."""
    if "parsed_body" in side:
        return json.dumps(side["parsed_body"], ensure_ascii=False).encode()
    body = side.get("body", side.get("content"))
    if isinstance(body, dict):
        if "base64_string" in body:
            return _unpacked(b64decode(body["base64_string"]))
        body = body.get("string")
    return _unpacked(body if isinstance(body, bytes) else (body or "").encode())


def _unpacked(body: bytes) -> bytes:
    return zlib.decompress(body, wbits=31) if body.startswith(b"\x1f\x8b") else body


# -- git -------------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", "-C", str(folder), *words], check=True)


def checked_out(address: str, commit: str, paths: Iterable[str], into: Path) -> None:
    """Bring these files or folders of a repository at a commit, and as little else as the server lets us."""
    patterns = ["/" + re.sub(r"[\\\[*?]", r"\\\g<0>", path) for path in paths]
    git(into, "init", "-q")
    git(into, "remote", "add", "origin", address)
    git(into, "sparse-checkout", "set", "--no-cone", *patterns)
    git(into, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", commit)
    git(into, "-c", "advice.detachedHead=false", "checkout", "-q", "FETCH_HEAD")


def recorded(source: Source, base: str) -> Iterator[Record]:
    """Yield the recordings of one repository."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checked_out(base + source.repository, source.commit, source.files, folder)
        for path, places in source.files.items():
            interactions = cassette((folder / path).read_bytes())
            for place in places:
                yield {"id": f"{source.repository}/{path}#{place}", **record(interactions[place])}


def main() -> int:
    """Write the recordings and the suites of tests into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("ZIGGURAT_CORPORA", ROOT / "corpora"))
    parser.add_argument("--from", dest="base", default="https://github.com/", help="the address before OWNER/NAME")
    args = parser.parse_args()
    if find_spec("yaml") is None:
        print(f"PyYAML is needed: {sys.executable} -m pip install pyyaml")
        return 2
    for archive, (repository, commit, part) in SUITES.items():
        print(f"{repository} {commit}", flush=True)
        args.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as name, tarfile.open(args.folder / archive, "w:gz") as packed:
            checked_out(args.base + repository, commit, [part], Path(name))
            packed.add(Path(name) / part, f"{repository.partition('/')[2]}/{part}")
    target = args.folder / TRAFFIC
    target.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with gzip.open(target, "wt", encoding="utf-8") as file:
        for source in sources(RECORDINGS.read_text(encoding="utf-8")):
            print(f"{source.repository} {source.commit}", flush=True)
            for each in recorded(source, args.base):
                file.write(json.dumps(each) + "\n")
                count += 1
    print(f"{count} recordings are in {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
