"""Starts a server, waits for its port, runs a command."""

import subprocess
import sys

server = subprocess.Popen(sys.argv[1].split())
try:
    subprocess.run(sys.argv[2:], check=True)
finally:
    server.terminate()
