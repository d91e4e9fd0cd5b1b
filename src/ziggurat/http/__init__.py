"""The one HTTP client, and the door for addresses that others gave.

- `client` > `pool` > `connection`, over a `route`, within `limits`; `incoming` reads a reply while it arrives, `sse`
  its events. `user_client` adapts the user's own httpx client.
- `fetcher` reads what is at an address that a model, a document or a stranger gave, if it is one of those that
  `addresses` allows.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"http.fetcher": ("Fetched", "Fetcher")})
