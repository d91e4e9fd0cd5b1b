"""The one HTTP client, and the door for addresses that others gave."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"http.fetcher": ("Fetched", "Fetcher")})
