"""The parts that all hosted providers share: dialects, the HTTP client, event streams, errors.

- Providers: `providers` makes their models, `dialect` lists how they differ, `service` is the model for every wire
  format, `strict_schema` checks schemas for strict modes, `headers` reads when to retry, `failures` turns error replies
  into typed errors, `key_mask` removes the key from all that a server sends.
- HTTP: `client` > `pool` > `connection`, over a `route`, within `limits`; `incoming` reads a reply while it arrives,
  `sse` its events. `user_client` adapts the user's own httpx client.
"""
