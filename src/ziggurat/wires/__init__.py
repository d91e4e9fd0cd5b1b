"""Providers' APIs as a server sees them: reading requests, and writing replies, whole and in pieces.

- `reading` parses the requests of the three formats.
- `writer` is what writes a reply in one of them: `chat`, `responses` or `anthropic`.
- `types` are what all of them share, what a reply shows of the work of the server, and the bodies of errors.
"""
