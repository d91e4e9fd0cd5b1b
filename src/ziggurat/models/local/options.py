"""Values from a closed set: enum values, and booleans."""

__all__ = ["choices_for", "truths_for"]

import re
from collections.abc import Mapping

from ziggurat.models.local.kinds import SchemaParameter, words_of
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.phrases import noun_phrases
from ziggurat.models.local.reading import Candidate, Reading, Values, stems

_NOT = re.compile(r"\b(?:no|not|\w+n['\u2019]t|without|never|nor)\b", re.IGNORECASE)
_OFF = word_set("off")
"""Words that mean no for something that is switched, opened or allowed."""
_SMALL = stems(" ".join((*word_set("stop"), "whether")))
_DOUBT = 0.1
"""How much nearer a request must be to no than to yes, to be understood as no."""
_NEAR = 0.5
"""How near an optional choice must be to the request, to be used at all."""


def choices_for(parameter: SchemaParameter, reading: Reading) -> Values:
    """Yield the enum values that a request names, or else those nearest in meaning."""
    heard = re.findall(r"[\w'\u2019-]+", reading.text.lower())
    words = {form for word in heard for form in (word, word.removesuffix("s"))}
    exact = False
    for choice in parameter.choices:
        plain = words_of(str(choice))
        single = plain.removesuffix("s")
        position = next((at for at, word in enumerate(heard) if word.removesuffix("s") == single), None)
        if plain in reading.text.lower() if " " in plain else plain.removesuffix("s") in words or plain in words:
            exact = True
            # Of two values that are named, the later one is meant: "nobody is on the sofa, switch it off".
            yield Candidate(value=choice, worth=1.0 + 0.001 * (position or 0))
    if exact:
        return
    glosses = _glosses(parameter)
    phrases = [*noun_phrases(reading.text, ())[-24:], reading.text]
    for choice in parameter.choices:
        said = [words_of(str(choice)), *glosses.get(str(choice), ())]
        near = max(reading.near(phrase, word) for phrase in phrases for word in said)
        if parameter.required or near > _NEAR:
            yield Candidate(value=choice, worth=0.8 * near)


def _glosses(parameter: SchemaParameter) -> Mapping[str, tuple[str, ...]]:
    """Return what a description says about each choice: ``home while people are in, away while nobody is``."""
    told: dict[str, tuple[str, ...]] = {}
    description = str(parameter.schema.get("description", ""))
    for choice in parameter.choices:
        plain = re.escape(str(choice))
        found = re.search(rf"\b{plain}\b['\"`]?(?:\s*[:=(-]\s*|\s+)([^,;.()]{{4,}})", description, re.IGNORECASE)
        if found is not None:
            told[str(choice)] = (found.group(1).strip(),)
    return told if len(told) > 1 else {}


def truths_for(parameter: SchemaParameter, reading: Reading) -> Values:
    """Yield true if a request mentions what a parameter is about, false if it negates it."""
    sides = _sides(parameter)
    heard = re.findall(r"[a-z'\u2019]+", reading.text.lower())
    if sides is not None:
        yes, no = (_content(side) - _content(other) for side, other in (sides, sides[::-1]))
        undone = {f"{prefix}{word}" for word in yes for prefix in ("un", "dis", "de")}
        for_yes, for_no = bool(yes & set(heard)), bool((no | undone) & set(heard))
        if for_yes != for_no:
            yield Candidate(value=for_yes and not _is_denied(reading.text, yes), worth=1.0)
            return
        if parameter.required and not _OFF & set(heard):
            near_yes, near_no = (reading.near(reading.text, side) for side in sides)
            yield Candidate(value=near_no < near_yes + _DOUBT, worth=0.35)
            return
    about = _about(parameter, reading)
    spoken = {word for word in heard if stems(word) & about}
    if spoken:
        yield Candidate(value=not (_is_denied(reading.text, spoken) or _OFF & set(heard)), worth=1.0)
    elif parameter.required:
        yield Candidate(value=not _OFF & set(heard), worth=0.35)


def _sides(parameter: SchemaParameter) -> tuple[str, str] | None:
    """Return what a description says about true and about false: ``True to turn it on, false to turn it off``."""
    description = str(parameter.schema.get("description", ""))
    found = re.search(r"\btrue\b(.+?)\bfalse\b(.+)", description, re.IGNORECASE)
    if found is not None:
        return found.group(1), found.group(2)
    found = re.search(r"\bfalse\b(.+?)\btrue\b(.+)", description, re.IGNORECASE)
    return (found.group(2), found.group(1)) if found is not None else None


def _content(text: str) -> set[str]:
    small = {"to", "for", "if", "when", "means", "is", "it", "and", "the", "a", "an", "turn"}
    return set(re.findall(r"[a-z]+", text.lower())) - small


def _about(parameter: SchemaParameter, reading: Reading) -> frozenset[str]:
    """Return stems of the words in a parameter's description that are not in its tool's."""
    told = " ".join(re.findall(r"[a-z]{4,}", str(parameter.schema.get("description", "")).lower()))
    return (stems(words_of(parameter.name)) | stems(told) - reading.purpose) - _SMALL


def _is_denied(text: str, words: set[str]) -> bool:
    """Return whether a negation occurs at most four words before one of some words."""
    for word in words:
        for found in re.finditer(rf"\b{re.escape(word)}\b", text, re.IGNORECASE):
            lead = re.split(r"[,.;:?!]", text[: found.start()])[-1].split()[-4:]
            if _NOT.search(" ".join(lead)):
                return True
    return False
