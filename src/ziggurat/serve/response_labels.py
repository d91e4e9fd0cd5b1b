"""What a response repeats of its request as long as it is on record, as labels of its run."""

from collections.abc import Mapping
from typing import Any

from ziggurat.core.errors import ConfigurationError
from ziggurat.wires.types import Json

_OWN = "response."
"""Begins the names of labels that repeat fields of the request; the others are its metadata."""


def labels_of_request(body: Json) -> dict[str, Any]:
    """Return the labels of a run that answers a request: its metadata, and what a response repeats of it.

    Raises:
        ConfigurationError: the metadata are no strings by their names.
    """
    metadata = body.get("metadata") or {}
    if not (isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())):
        raise ConfigurationError(f"metadata: expected an object of strings, got {metadata!r:.200}")
    own = {_OWN + name: body[name] for name in ("background", "previous_response_id") if body.get(name)}
    return metadata | own


def fields_in_labels(labels: Mapping[str, Any]) -> Json:
    """Return what labels say of a request."""
    own = {name.removeprefix(_OWN): value for name, value in labels.items() if name.startswith(_OWN)}
    return {"metadata": {name: str(value) for name, value in labels.items() if not name.startswith(_OWN)}, **own}
