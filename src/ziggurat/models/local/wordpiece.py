"""A WordPiece tokenizer for uncased BERT vocabularies."""

import functools
import unicodedata
from collections.abc import Iterator, Mapping
from importlib import resources

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
    """Return the token numbers of a text, between the start and end tokens, at most `limit` of them."""
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
