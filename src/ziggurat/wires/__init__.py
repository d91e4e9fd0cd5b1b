"""Providers' APIs as a server sees them: reading requests, and writing replies, whole and in pieces.

- `reading` parses the requests of the three formats.
- `writer` writes a reply in Chat Completions or Anthropic Messages, `responses` in Responses.
- `jsonrpc` reads and writes the messages of JSON-RPC; `a2a` are the data of A2A.
- `types` are what all of them share, what a reply shows of the work of the server, and the bodies of errors.
"""
