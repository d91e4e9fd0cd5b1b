"""What is taken from a repository is what its cassettes hold, whoever wrote them."""

import base64
import gzip
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.fetch import RECORDINGS, Source, checked_out, record, sources

ASKED = '{"model": "m", "messages": [], "stream": true}'
REPLY = b"data: {}\n\n"


def test_the_list_names_repository_commit_file_and_places() -> None:
    text = "one/two 0123 MIT\n  tests/tapes\n    0 2 first.yaml\n    1 numbers 1 to 5.yaml\n"
    files = {"tests/tapes/first.yaml": [0, 2], "tests/tapes/numbers 1 to 5.yaml": [1]}
    assert sources(text) == [Source("one/two", "0123", files)]


def test_all_commits_in_the_list_are_whole() -> None:
    found = sources(RECORDINGS.read_text(encoding="utf-8"))
    assert {len(each.commit) for each in found} == {40}
    assert sum(len(places) for each in found for places in each.files.values()) > 2000


@pytest.mark.parametrize(
    "response",
    [
        {"status": {"code": 200}, "body": {"string": REPLY.decode()}},
        {"status": {"code": 200}, "body": {"string": gzip.compress(REPLY)}},
        {"status": {"code": 200}, "body": {"encoding": "ASCII-8BIT", "base64_string": base64.b64encode(REPLY)}},
        {"status": 200, "body": {"string": REPLY}},
        {"status_code": 200, "content": REPLY.decode()},
    ],
    ids=["plain", "gzip", "Ruby", "R", "httpx"],
)
def test_bodies_are_unpacked(response: dict[str, Any]) -> None:
    request = {"uri": "https://api.mistral.ai/v1/chat/completions?a=b", "body": ASKED}
    found = record({"request": request, "response": response})
    assert (found["host"], found["endpoint"], found["stream"]) == ("api.mistral.ai", "chat", True)
    assert (found["status"], found["body"]) == (200, REPLY.decode())


def test_bodies_that_were_parsed_are_json_again() -> None:
    request = {"uri": "https://api.anthropic.com/v1/messages", "parsed_body": {"model": "m", "messages": []}}
    found = record({"request": request, "response": {"status": {"code": 429}, "parsed_body": {"error": "é"}}})
    assert (found["endpoint"], found["stream"], found["status"]) == ("messages", False, 429)
    assert found["body"] == '{"error": "é"}'


def test_a_file_of_a_commit_is_brought(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        return subprocess.check_output(["git", "-C", str(there), *who, *words], text=True)

    there, here = tmp_path / "there", tmp_path / "here"
    (there / "tests").mkdir(parents=True)
    (there / "other").mkdir()
    here.mkdir()
    git("init", "-q")
    for text in ("first", "second"):
        for folder in ("tests", "other"):
            (there / folder / "a[1].yaml").write_text(text)
        git("add", ".")
        git("commit", "-qm", text)
    checked_out(there.as_uri(), git("rev-parse", "HEAD~1").strip(), ["tests/a[1].yaml"], here)
    assert (here / "tests" / "a[1].yaml").read_text() == "first"
    assert not (here / "other").exists()
