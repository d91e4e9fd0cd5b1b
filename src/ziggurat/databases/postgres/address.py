"""PostgreSQL URLs: the part for the driver, the part that may be shown, and our own options."""

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.databases.address import without_secrets

_OURS = ("schema", "timeout", "lease")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class PostgresAddress(Struct, frozen=True):
    """A parsed server URL."""

    secret: str
    shown: str
    schema: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"PostgresAddress({self.shown!r})"

    @classmethod
    def of(cls, url: str) -> "PostgresAddress":
        """Parse a URL."""
        try:
            parts = urlsplit(url)
            if "," not in parts.netloc:  # with several servers, only the driver can parse the ports
                _ = parts.port
        except ValueError:
            raise ConfigurationError(
                f"{without_secrets(url)!r} is not an address of a server: write "
                "postgresql://user:password@host:5432/database, with %40, %2F, %3A, %5B for @, /, :, [ in a password"
            ) from None
        options = parse_qsl(parts.query, keep_blank_values=True)
        ours = {name: value for name, value in options if name in _OURS}
        theirs = urlencode([(name, value) for name, value in options if name not in _OURS])
        user, _, host = parts.netloc.rpartition("@")
        public = f"postgresql://{user.partition(':')[0]}{'@' if user else ''}{host}{parts.path}"
        schema = ours.pop("schema", "ziggurat")
        if _SCHEMA.fullmatch(schema) is None:
            raise ConfigurationError(f"{public!r}: a schema is lowercase letters, digits and _, got {schema!r}")
        secret = parts._replace(scheme="postgresql", query=theirs, fragment="").geturl()
        return cls(secret, public, schema, ours)
