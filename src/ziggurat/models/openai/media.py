"""Write images, audio and documents as parts of a message's content."""

import base64
from typing import Any

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.parts import Audio, File, Image
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.openai.quirks import DOCUMENT_FIELDS

_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/webm": "webm",
    "audio/pcm": "pcm16",
}


def media_part(part: Image | Audio | File, dialect: Dialect) -> dict[str, Any]:
    """Return a part as JSON for the content of a user message."""
    if isinstance(part, Image):
        return _image(part)
    if isinstance(part, Audio):
        return _audio(part)
    return _file(part, dialect)


def _data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _image(part: Image) -> dict[str, Any]:
    if part.data is None and part.url is None:
        raise ConfigurationError("an Image holds neither data nor url; pass Image(data=...) or Image(url=...)")
    url = part.url if part.data is None else _data_url(part.data, part.media_type)
    detail = {"detail": part.detail} if part.detail else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _audio(part: Audio) -> dict[str, Any]:
    if part.data is None:
        raise ConfigurationError("sound is sent as bytes on this wire; fetch it and pass Audio(data=...)")
    data = base64.b64encode(part.data).decode()
    kind = _FORMATS.get(part.media_type, part.media_type.rpartition("/")[2])
    return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}


def _file(part: File, dialect: Dialect) -> dict[str, Any]:
    if part.data is not None and part.media_type.startswith("text/"):
        title = f"{part.name}:\n" if part.name else ""
        return {"type": "text", "text": title + part.data.decode("utf-8", "replace")}
    if not dialect.files:
        raise ConfigurationError(
            f"{dialect.name} takes no documents; pass their text, or File(data=..., media_type='text/plain')"
        )
    if part.id is not None:
        return {"type": "file", "file": {"file_id": part.id}}
    if part.data is None and part.url is None:
        raise ConfigurationError("a File holds neither data, url nor id; pass one of them")
    data = part.url if part.data is None else _data_url(part.data, part.media_type)
    field = DOCUMENT_FIELDS.get(dialect.name)
    if field:
        return {"type": field, field: data}
    name = part.name or "document" + _SUFFIXES.get(part.media_type, "")
    return {"type": "file", "file": {"filename": name, "file_data": data}}


_SUFFIXES = {"application/pdf": ".pdf", "application/json": ".json"}
