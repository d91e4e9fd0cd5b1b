"""Providers' APIs as a server sees them: reading requests, and writing replies, whole and in pieces.

- `reading` parses the requests of the three formats.
- `writer` is what writes a reply in one of them: `chat`, `responses` or `anthropic`.
- `errors` are the bodies of errors; `types` what all of them share, and what a reply shows of the work of the server.
"""
