#!/bin/sh
# Starts a server, runs a command, stops the server.
$1 &
server=$!
shift
"$@"
kill $server
