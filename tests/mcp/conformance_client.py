"""The program that the official conformance suite drives: ``python conformance_client.py URL``.

The suite names the scenario in the environment, and passes the address of its server as the last argument.
"""

import asyncio
import json
import os
import sys
import time
from base64 import urlsafe_b64encode
from http.client import HTTPConnection
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode, urlsplit

from ziggurat import ToolError, ZigguratError
from ziggurat.mcp import Elicitation, McpClient, OAuth, mcp

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
BY_TYPE: dict[str, object] = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}


async def agree(asked: Elicitation) -> dict[str, Any]:
    """Accept with the defaults of the form, which are filled in by the client."""
    return {"confirmed": True} if "confirmed" in str(asked.schema) else {}


def arguments_for(schema: dict[str, Any]) -> dict[str, object]:
    properties = schema.get("properties", {})
    return {name: BY_TYPE.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", ())}


async def call_each(server: McpClient, calls: list[tuple[str, dict[str, Any]]]) -> None:
    for name, arguments in calls:
        try:
            print(await server.call(name, arguments), file=sys.stderr)
        except ZigguratError as error:
            print(f"{name}: {error}", file=sys.stderr)


async def scenario(server: McpClient) -> None:
    tools = {tool.name: tool for tool in await server.tools()}
    if SCENARIO in ("tools_call", "request-metadata", "http-standard-headers"):
        await server.call("add_numbers", {"a": 5, "b": 3})
    elif SCENARIO == "sse-retry":
        await server.call("test_reconnection")
    elif SCENARIO == "elicitation-sep1034-client-defaults":
        await server.call("test_client_elicitation_defaults")
    elif SCENARIO == "sep-2322-client-request-state":
        names = ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type")
        for name in names:
            await server.call(name)
    elif SCENARIO == "json-schema-2020-12-preservation":
        await server.call("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})
    elif SCENARIO == "http-invalid-tool-headers":
        await call_each(server, [(tool.name, arguments_for(tool.input_schema)) for tool in tools.values()])
    elif SCENARIO == "http-custom-headers":
        calls = [(call["name"], call.get("arguments") or {}) for call in CONTEXT.get("toolCalls", ())]
        await call_each(server, [call for call in calls if call[0] in tools])
    elif SCENARIO.startswith("auth/") and tools:
        await call_each(server, [(next(iter(tools)), {})])


async def visit(address: str) -> str:
    """Open an address as a browser would, and return the one to which it is redirected."""

    def follow() -> str:
        parts = urlsplit(address)
        connection = HTTPConnection(parts.hostname or "", parts.port)
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers["location"]

    return await asyncio.to_thread(follow)


async def sign(issuer: str) -> str:
    """Sign a statement with the key of the scenario, by ES256."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    now, client = int(time.time()), CONTEXT["client_id"]
    said = {"iss": client, "sub": client, "aud": issuer, "iat": now, "exp": now + 300, "jti": token_hex(8)}
    head = {"alg": "ES256", "typ": "JWT"}
    text = ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (head, said))
    key = load_pem_private_key(CONTEXT["private_key_pem"].encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    numbers = decode_dss_signature(key.sign(text.encode(), ECDSA(hashes.SHA256())))
    signature = b"".join(number.to_bytes(32, "big") for number in numbers)
    return f"{text}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


async def exchange(issuer: str, resource: str) -> dict[str, str]:
    """Exchange the statement of an enterprise about a person for one that the server takes."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": CONTEXT["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": issuer,
        "resource": resource,
        "client_id": CONTEXT["idp_client_id"],
    }

    def post() -> str:
        parts = urlsplit(CONTEXT["idp_token_endpoint"])
        connection = HTTPConnection(parts.hostname or "", parts.port)
        kind = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", parts.path, urlencode(form), kind)
        return str(json.loads(connection.getresponse().read())["access_token"])

    bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    return {"grant_type": bearer, "assertion": await asyncio.to_thread(post)}


def authorization() -> OAuth | None:
    if not SCENARIO.startswith("auth/"):
        return None
    known: dict[str, Any] = {"client_id": CONTEXT.get("client_id"), "client_secret": CONTEXT.get("client_secret")}
    if SCENARIO == "auth/client-credentials-basic":
        return OAuth(**known)
    if SCENARIO == "auth/client-credentials-jwt":
        return OAuth(client_id=known["client_id"], assertion=sign)
    if SCENARIO == "auth/enterprise-managed-authorization":
        return OAuth(grant=exchange, **known)
    document = "https://conformance-test.local/client-metadata.json"
    return OAuth(visit, redirect="http://localhost:3000/callback", client_document=document, **known)


async def main() -> int:
    sampling = "demo" if SCENARIO == "request-metadata" else None
    server = mcp(
        sys.argv[-1],
        elicit=agree,
        model=sampling,
        roots=[os.getcwd()],
        timeout=20,
        authorization=authorization(),
    )
    try:
        async with server:
            await scenario(server)
    except ToolError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
