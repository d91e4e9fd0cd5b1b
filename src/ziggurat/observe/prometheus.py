"""Prometheus' text format, version 0.0.4: families of samples with labels."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

Labels = Mapping[str, str]


def counters(name: str, help_text: str, samples: Sequence[tuple[Labels, float]]) -> Iterator[str]:
    """Yield the lines of a counter; none if there are no samples. `name` is one of OpenTelemetry.

    >>> print(*counters("ziggurat.failures", "Failed calls.", [({"tool": "look"}, 3)]), sep="\\n")
    # HELP ziggurat_failures_total Failed calls.
    # TYPE ziggurat_failures_total counter
    ziggurat_failures_total{tool="look"} 3
    """
    family = f"{_family(name)}_total"
    if samples:
        yield from _head(family, "counter", help_text)
    for labels, value in samples:
        yield _sample(family, labels, value)


def gauge(name: str, help_text: str, value: float) -> Iterator[str]:
    """Yield the lines of a gauge without labels."""
    yield from _head(_family(name), "gauge", help_text)
    yield _sample(_family(name), {}, value)


def histograms(
    name: str, help_text: str, bounds: Sequence[float], samples: Sequence[tuple[Labels, Sequence[int], float]]
) -> Iterator[str]:
    """Yield the lines of a histogram of seconds; none if there are no samples."""
    family = f"{_family(name)}_seconds"
    if samples:
        yield from _head(family, "histogram", help_text)
    for labels, buckets, total in samples:
        sums = list(accumulate(buckets))
        for bound, count in zip((*map(str, bounds), "+Inf"), sums, strict=True):
            yield _sample(f"{family}_bucket", {**labels, "le": bound}, count)
        yield _sample(f"{family}_sum", labels, total)
        yield _sample(f"{family}_count", labels, sums[-1])


def _family(name: str) -> str:
    return name.replace(".", "_")


def _head(family: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {family} {help_text}"
    yield f"# TYPE {family} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    texts = [f'{label}="{_escaped(text)}"' for label, text in labels.items()]
    return f"{name}{{{','.join(texts)}}} {value!r}" if texts else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
