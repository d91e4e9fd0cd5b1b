"""Resolve ``"local"`` or ``"provider:model"`` to an embedder."""

from ziggurat.core.settings import checked
from ziggurat.messages.embedding import Embedder


@checked
def resolve_embedder(spec: str | Embedder) -> Embedder:
    """Return an embedder: a service unchanged, or the embedder named ``"local"`` or ``"provider:model"``.

    ``"local"`` is the sentence model of the extra ``local``; ``"openai:text-embedding-3-small"`` a provider's.

    Raises:
        ConfigurationError: there is no embedder with this name, or it is neither a name nor a service.
        MissingExtra: the provider needs a package that is not installed.
    """
    if not isinstance(spec, str):
        return spec
    if spec == "local":
        from ziggurat.models.embed.minilm import MiniLm

        return MiniLm()
    from ziggurat.models.embed.endpoint import http_embedder

    return http_embedder(spec)
