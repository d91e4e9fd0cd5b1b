"""The official conformance suite drives the client: two scenarios, or all where ZIGGURAT_LONG is set.

Not among them are the extensions of OAuth that docs/limits.md names: DPoP and workload identities.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import LONG
from tests.serve.openai.node import SUITE, find_node, find_packages

CLIENT = Path(__file__).parent / "conformance_client.py"
AUTH = [
    "metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
    "scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
    "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration",
]  # fmt: skip
NEWER_AUTH = [
    "resource-mismatch", "offline-access-scope", "offline-access-not-supported", "authorization-server-migration",
    "iss-supported", "iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected",
    "iss-normalized", "metadata-issuer-mismatch",
]  # fmt: skip
SCENARIOS = {
    "2025-03-26": ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"],
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
        *(f"auth/{each}" for each in AUTH),
    ],
    "": ["auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/enterprise-managed-authorization"],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
        *(f"auth/{each}" for each in (*AUTH, *NEWER_AUTH)),
    ],
}
FEW = {("2026-07-28", "sep-2322-client-request-state"), ("2025-11-25", "auth/scope-step-up")}
ALL = sorted((revision, scenario) for revision, scenarios in SCENARIOS.items() for scenario in scenarios)


@pytest.mark.parametrize(("revision", "scenario"), ALL if LONG else sorted(FEW))
async def test_a_scenario_passes(revision: str, scenario: str, tmp_path: Path) -> None:
    packages, program = find_packages(SUITE), find_node(22)
    if packages is None or program is None:
        pytest.skip("no conformance suite of MCP: run python -m tests.serve.openai.node, where there is Node.js 22")
    suite = packages / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    command = [program, str(suite), "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario]
    if revision:  # those of extensions belong to none
        command += ["--spec-version", revision]
    done = await asyncio.to_thread(
        subprocess.run, [*command, "--output-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    checks = [check for path in tmp_path.rglob("checks.json") for check in json.loads(path.read_text())]
    passed = [check["id"] for check in checks if check["status"] == "SUCCESS"]
    failed = [(check["id"], check.get("errorMessage")) for check in checks if check["status"] in ("FAILURE", "WARNING")]
    assert passed, done.stdout + done.stderr
    assert not failed
