"""What all providers share: how they differ, event streams, the way over the network, and its failures.

- Providers: `providers` makes models of them, `dialect` says how they differ, `service` is the model on every wire,
  `strict` and `headers` read what is theirs, `failures` says what to do when they refuse.
- The way: `client` > `pool` > `connection` by a `route`, within `limits`; `incoming` is a reply while it comes, `sse`
  its events, `given` a client of the user's.
"""
