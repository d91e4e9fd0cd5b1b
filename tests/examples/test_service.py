"""The web service, over loopback, in a process that is killed and started again."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.examples.programs import ENVIRONMENT, ROOT

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


COMPLAINT = {"prompt": "My teapot is broken, order 7"}
PAID = "40 euros paid back for order 7"
ANSWERS: list[tuple[str, dict[str, object], str]] = [
    ("a", {"decision": "approve"}, PAID),
    ("b", {"decision": "deny", "reason": "too much"}, "denied: too much"),
    ("c", {"decision": "modify", "arguments": {"order": 7, "euros": 20}}, "20 euros paid back for order 7"),
]


@contextmanager
def service(store: Path) -> Iterator[httpx.Client]:
    """Start the service on a socket that is already open, and yield a client; at the end, kill it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, descriptor = listening.getsockname()[1], listening.fileno()
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "uvicorn",
                "examples.apps.service:app",
                "--fd",
                str(descriptor),
                "--log-level=error",
            ],
            env={**ENVIRONMENT, "STORE": f"sqlite:///{store}"},
            cwd=ROOT,
            pass_fds=[descriptor],
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
                yield client
        finally:
            server.kill()
            server.wait()


def events_of(client: httpx.Client, run_id: str) -> list[dict[str, str]]:
    """Read the events of a run as they come, until it has ended or waits."""
    with client.stream("GET", f"/runs/{run_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def waiting(client: httpx.Client) -> dict[str, dict[str, object]]:
    return {each["run"]: each for each in client.get("/approvals").json()}


def decide(client: httpx.Client, run_id: str, answer: dict[str, object]) -> httpx.Response:
    return client.post(f"/runs/{run_id}/approvals/{waiting(client)[run_id]['call']}", json=answer)


def test_refunds_are_decided_over_http_and_survive_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "service.db"
    with service(store) as client:
        for run_id in ("a", "b", "c"):
            asked = client.put(f"/runs/{run_id}", json=COMPLAINT)
            assert (asked.status_code, asked.json()["status"]) == (202, "running")
            assert events_of(client, run_id)[-1] == {"waits": "refund"}
            assert client.get(f"/runs/{run_id}").json()["status"] == "Suspended"
        assert waiting(client)["a"]["arguments"] == {"order": 7, "euros": 40}

        for run_id, answer, expected in ANSWERS:
            decided = decide(client, run_id, answer)
            assert (decided.status_code, decided.json()["answer"]) == (200, expected)
            assert client.get(f"/runs/{run_id}").json() == decided.json()
        assert waiting(client) == {}

        assert client.put("/runs/a", json=COMPLAINT).json()["status"] == "Completed"
        assert client.put("/runs/a", json={"prompt": "Something else"}).status_code == 409
        assert client.post("/runs/a/approvals/nothing", json={"decision": "approve"}).status_code == 409
        assert [client.get(path).status_code for path in ("/runs/d", "/runs/d/events")] == [404, 404]
        assert client.put("/runs/d", json=COMPLAINT).json()["status"] == "running"  # and the process is killed

    with service(store) as client:
        assert events_of(client, "d")[-1] == {"waits": "refund"}
        assert waiting(client).keys() == {"d"}
        assert decide(client, "d", {"decision": "approve"}).json()["answer"] == PAID
