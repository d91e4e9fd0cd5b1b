"""Free text in a request: the message to send, the task to remember, the thing to search for."""

__all__ = ["Run", "clipped", "noun_phrases", "parts_of", "phrases_for", "runs_in"]

import re
from collections.abc import Iterator, Mapping, Sequence

from ziggurat.models.local.kinds import Want
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.spans import HEADS, Span, trimmed

Run = tuple[str, int, int]
"""Words of a request, with their start and end in it."""

_REST = r"(?P<it>[^.;?!]+)"
_CLAUSE = r"(?P<it>[^,.;:?!]+)"
_ALL = r"(?P<it>.+)"
_WHEN = r"(?:(?: (?:at|on|in))? (?:today|tomorrow|tonight|later|\w+day|(?<=at )\S+|(?<=in )\S+ \w+))?"

_PATTERNS: Mapping[Want, tuple[tuple[str, float], ...]] = {
    "message": (
        (rf":\s+{_ALL}", 0.95),
        (rf"\b(?:saying|says?|reads?|reading|the words|the message|the text|telling \w+)\b(?: that)?:? {_REST}", 0.9),
        (rf"\bthat {_REST}", 0.85),
        (rf"^(?:please )?(?:say|echo|repeat|print|write) {_REST}", 0.7),
        (rf"\b(?:tell|remind|ping|poke|nudge|prompt|ask) (?:me|us){_WHEN} to {_CLAUSE}", 0.9),
        (rf"\b(?:ask\w*|whether|if) {_REST}", 0.4),
        (rf"\babout {_REST}", 0.35),
    ),
    "task": (
        (rf":\s+{_ALL}", 0.8),
        (
            (
                r"\b(?:remind|tell|prompt|nudge|nag|ping|poke|help|let|forget|forgetting|remember|have|has|ought|supposed|need|want"
                rf"|got)(?: (?:me|us|myself))?(?: (?:forget|remember))?{_WHEN} to {_CLAUSE}"
            ),
            0.95,
        ),
        (rf"\b(?:must|should|gotta|i'll|i will) {_CLAUSE}", 0.85),
        (rf"\b(?:make sure|be sure|see to it) (?:that )?(?:i|we|to) {_CLAUSE}", 0.96),
        (rf"\b(?:miss|forget|forgetting|remember|about|of) (?!to\b|me\b){_CLAUSE}", 0.6),
        (rf"\bto (?!(?:me|do|be|it)\b){_CLAUSE}", 0.5),
    ),
    "title": (
        (rf":\s+{_ALL}", 0.8),
        (
            (
                r"\b(?:schedule|book|pencil in|add|create|plan|put|enter|note|arrange|organi[sz]e|set up)"
                rf"(?: me| us)?(?: in for| in)? (?!(?:it|that|this|me|us)\b){_CLAUSE}"
            ),
            0.75,
        ),
        (rf"\b(?:have|having|attend|attending|go to|going to|got|meet|meeting) {_CLAUSE}", 0.65),
        (r"^(?P<it>[^,.;:?!]+?) (?:is|are|takes place|starts|begins|happens) (?:on|at|in)\b", 0.7),
        (rf"\bfor (?:the|an?|my|our) {_CLAUSE}", 0.85),
        (rf"\bfor {_CLAUSE}", 0.55),
        (rf"\b(?:called|named|titled|hear|play|put on|listen to|mood for|some) {_CLAUSE}", 0.8),
    ),
    "query": (
        (
            (
                r"\b(?:look up|look for|google|search(?: the web| online| the internet)?(?: for)?|find out|find"
                r"|read up on"
                rf"|information (?:on|about)|articles? (?:on|about)|learn about|details (?:on|about)) {_REST}"
            ),
            0.9,
        ),
        (r"^(?P<it>(?:who|what|where|when|which|why|how|is|are|does|did|can)\b.+)", 0.8),
        (rf"\bi wonder {_REST}", 0.8),
        (rf"\babout {_REST}", 0.7),
        (rf"\b(?:for|on|of) {_REST}", 0.4),
    ),
    "request": (
        (r"^what (?:is|are) (?P<it>[^?!,]*\d[^?!,]*)", 0.6),
        (r"(?P<it>.+)", 0.5),
    ),
    "topic": (
        (rf"\b(?:about|on|regarding|concerning|with|in) {_CLAUSE}", 0.8),
        (rf"\b(?:of|for) {_CLAUSE}", 0.6),
    ),
    "phrase": (
        (rf":\s+{_ALL}", 0.8),
        (
            (
                r"\b(?i:say|write|wish|translate|put|express|call)(?: the (?:word|text|phrase|sentence))?"
                r" (?P<it>[^?.!]+?) (?:in|into|to) [A-Z]"
            ),
            0.9,
        ),
        (r"\b(?:word|term|name|expression|equivalent|translation|version|[A-Z]\w+) (?:for|of) (?P<it>[^?.!,]+)", 0.85),
        (r"\b(?:do|does|did) (?P<it>[^?.!,]+) (?:mean|stand for)\b", 0.95),
        (r"\b(?:meaning|definition) of (?P<it>[^?.!,]+)", 0.95),
        (r"\b(?:word|term|phrase|expression|define|explain|understand) (?!for\b|of\b|the\b)(?P<it>[^?.!,]+)", 0.7),
        (r"\bwhat (?:is|are) (?P<it>[^?.!,]+)", 0.3),
    ),
}


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.NOFLAG if "[A-Z]" in pattern else re.IGNORECASE)


_COMPILED = {
    want: tuple((_compile(pattern), worth) for pattern, worth in patterns) for want, patterns in _PATTERNS.items()
}
_LIKE: Mapping[Want, tuple[Want, ...]] = {"text": ("message", "title", "topic", "phrase")}
_BEFORE = re.compile(r"(?:\s*,)?\s*\b(?:at|on|by|for|in|from|until|till|to|into|of)\s*$", re.IGNORECASE)
_SMALL_HEAD = re.compile(r"^(?:(?:to|that|the|an?|some|my|please|and|about|for|of|on|with)\s+)+", re.IGNORECASE)
_SMALL_TAIL = re.compile(
    r"(?:[\s,]+(?:please|for me|to me|now|then|today|and|or|(?:on|in|into|to|onto|from) (?:the|my|our) "
    r"(?:calendar|agenda|planner|diary|schedule|list|web|internet)))+$",
    re.IGNORECASE,
)
_STOP = word_set("stop")
_INFINITIVE = re.compile(
    rf"(?:(?:\b|(?='))(?:{'|'.join(word_set('willing'))}) to|\bplease"
    r"|\b(?:should|must|can|could|will|would|shall|may|might|cannot|does|do|did|\w+n['\u2019]t)"
    r"(?: (?:i|you|we|they|he|she|it|not|please|just|also))*) $",
    re.IGNORECASE,
)
"""Matches what comes before a verb, which cannot be an argument: "I want to ..."."""
_NEAR = 80  # characters before a word among which it is searched for


def phrases_for(want: Want, request: str, taken: Sequence[Span]) -> Iterator[tuple[str, float]]:
    """Yield parts of a request that may be a parameter's value, each with its worth from 0 to 1.

    Args:
        want: The kind of the parameter.
        request: The user's request.
        taken: Spans that other parameters of the same tool claim; they are cut off at both ends.
    """
    for kind in _LIKE.get(want, (want,)):
        for pattern, worth in _COMPILED.get(kind, ()):
            for match in pattern.finditer(request):
                text = clipped(
                    request, match.start("it"), match.end("it"), taken, tail=kind not in ("message", "request")
                )
                if kind in ("title", "topic", "phrase", "query"):
                    text = _SMALL_HEAD.sub("", text)
                elif kind == "message":
                    text = re.sub(r"^that\s+", "", text)
                if text:
                    yield text, worth


def clipped(request: str, start: int, end: int, taken: Sequence[Span], *, tail: bool = True) -> str:
    """Return a part of a request without claimed spans at its two ends and the prepositions before them.

    Args:
        request: The user's request.
        start: The start of the part.
        end: The end of the part.
        taken: Spans that belong to other parameters.
        tail: Whether to drop small words at the end ("please", "on my list") too.
    """
    for _ in range(4):
        before = (start, end)
        for span in taken:
            if start < span.end >= end and span.start < end:
                lead = _BEFORE.search(request[start : span.start])
                end = start + lead.start() if lead else span.start
            elif span.start <= start < span.end or (
                start <= span.start and _heads(request[start : span.start], span.end, end)
            ):
                start = span.end
        text = request[start:end]
        small = _SMALL_TAIL.search(text) if tail else None
        if small and small.start() > 0:
            end = start + small.start()
        end = start + len(request[start:end].rstrip(" ,.;:?!"))
        if (start, end) == before:
            break
    return trimmed(request[start:end])


def _heads(between: str, stop: int, end: int) -> bool:
    """Return whether a claimed span is at the very beginning, with something left after it."""
    return not between.strip(" ,") and stop < end


def noun_phrases(request: str, taken: Sequence[Span]) -> list[str]:
    """Return runs of one to four content words that no claimed span covers, longest first."""
    return list(dict.fromkeys(text for text, _, _ in parts_of(runs_in(request, taken))))


def runs_in(request: str, taken: Sequence[Span]) -> list[Run]:
    """Return the longest runs of content words that no claimed span covers."""
    runs: list[list[re.Match[str]]] = [[]]
    for match in re.finditer(r"[\w'\u2019-]+|[^\w\s]", request):
        word = match.group()
        covered = any(span.start < match.end() and match.start() < span.end for span in taken)
        leads = (match.start() == 0 and word.lower() in HEADS) or _INFINITIVE.search(
            request[max(0, match.start() - _NEAR) : match.start()]
        )
        if covered or leads or not word[0].isalnum() or word.lower() in _STOP:
            runs.append([])
        else:
            runs[-1].append(match)
    return [(request[run[0].start() : run[-1].end()], run[0].start(), run[-1].end()) for run in runs if run]


def parts_of(runs: Sequence[Run]) -> list[Run]:
    """Return the parts of the runs of up to four words, longest first."""
    found: dict[Run, None] = {}
    for size in (4, 3, 2, 1):
        for text, start, _ in runs:
            words = list(re.finditer(r"\S+", text))
            for at in range(len(words) - size + 1):
                low, high = words[at].start(), words[at + size - 1].end()
                found[(text[low:high], start + low, start + high)] = None
    return list(found)
