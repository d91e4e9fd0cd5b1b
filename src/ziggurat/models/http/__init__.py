"""What all hosted providers share: their differences as data, the HTTP client, event streams, errors.

- Providers: `providers` makes their models, `dialect` says how they differ, `service` is the model on every wire
  format, `strict_schema` and `headers` handle what is special to some, `failures` turns refusals into errors.
- HTTP: `client` > `pool` > `connection`, over a `route`, within `limits`; `incoming` is a reply while it arrives,
  `sse` its events. `user_client` adapts an httpx client of the user's.
"""
