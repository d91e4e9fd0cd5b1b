"""Metrics of your own, and the lines of metrics in Prometheus' text format."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from ziggurat.core.errors import ConfigurationError
from ziggurat.observe.conventions import BUCKETS

Own = TypeVar("Own", bound="Instrument")

_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")


class Instrument:
    """A metric of your own: a value for each combination of labels. Made by `Metrics`.

    Labels should have few different values: a name, but not an id. A label that cannot be one is a ConfigurationError.
    """

    def __init__(self, name: str, help_text: str, kind: str, bounds: tuple[float, ...] = ()) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is not a name of a metric: letters, digits, _ and :, no digit first")
        if list(bounds) != sorted(set(bounds)):
            raise ConfigurationError(f"the bounds of {name!r} must increase")
        self.name = name
        self.help_text = help_text
        self.kind = kind
        self.bounds = bounds
        self.values: dict[tuple[tuple[str, str], ...], float] = {}
        self.buckets: dict[tuple[tuple[str, str], ...], list[int]] = {}

    def lines(self) -> Iterator[str]:
        """Return its lines in Prometheus' text format; none if it has no value."""
        samples = [(dict(key), value) for key, value in self.values.items()]
        buckets = [self.buckets[key] for key in self.values] if self.kind == "histogram" else ()
        return metric_lines(self.name, self.kind, self.help_text, samples, self.bounds, buckets)

    def _key(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        for label in labels:
            if not _NAME.fullmatch(label) or label.startswith("__"):
                raise ConfigurationError(f"{label!r} is not a name of a label")
        return tuple(sorted((label, str(text)) for label, text in labels.items()))


class CounterMetric(Instrument):
    """A number that only grows."""

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to it; a negative amount is a ConfigurationError."""
        if not amount >= 0:
            raise ConfigurationError(f"the counter {self.name} must not decrease; got {amount!r}")
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0) + amount


class GaugeMetric(Instrument):
    """A number that grows and shrinks."""

    def set(self, value: float, **labels: str) -> None:
        """Set it."""
        self.values[self._key(labels)] = value

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to it; a negative amount is subtracted."""
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0) + amount


class HistogramMetric(Instrument):
    """How often values up to some bounds occurred."""

    def record(self, value: float, **labels: str) -> None:
        """Count a value."""
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0.0) + value
        buckets = self.buckets.setdefault(key, [0] * (len(self.bounds) + 1))
        buckets[bisect_left(self.bounds, value)] += 1


class Instruments:
    def __init__(self) -> None:
        self._own: dict[str, Instrument] = {}

    def counter(self, name: str, help_text: str = "") -> CounterMetric:
        """Return a counter of your own, made when it is first asked for.

        Raises:
            ConfigurationError: the name cannot be that of a metric, or belongs to one of another kind.
        """
        return self._instrument(CounterMetric(name, help_text, "counter"))

    def gauge(self, name: str, help_text: str = "") -> GaugeMetric:
        """Return a gauge of your own, made when it is first asked for; see `counter`."""
        return self._instrument(GaugeMetric(name, help_text, "gauge"))

    def histogram(self, name: str, help_text: str = "", bounds: Sequence[float] = BUCKETS) -> HistogramMetric:
        """Return a histogram of your own, made when it is first asked for; see `counter`.

        Its `bounds` are the upper ones of its buckets, increasing; by default they are durations in seconds.
        """
        return self._instrument(HistogramMetric(name, help_text, "histogram", tuple(bounds)))

    def _instrument(self, new: Own) -> Own:
        known = self._own.setdefault(new.name, new)
        if not isinstance(known, type(new)) or known.bounds != new.bounds:
            raise ConfigurationError(f"there is a metric {new.name!r} of another kind, {known.kind}")
        return known

    def own_values(self) -> dict[str, list[dict[str, Any]]]:
        return {
            name: [{"labels": dict(key), "value": value} for key, value in each.values.items()]
            for name, each in self._own.items()
        }

    def own_lines(self) -> list[str]:
        return [line for instrument in self._own.values() for line in instrument.lines()]


def metric_lines(
    name: str,
    kind: str,
    help_text: str,
    samples: Sequence[tuple[Mapping[str, str], float]],
    bounds: Sequence[float] = (),
    buckets: Sequence[Sequence[int]] = (),
) -> Iterator[str]:
    """Yield the lines of a metric; none if there are no samples. Those of a histogram are sums, and have buckets.

    >>> print(*metric_lines("failures.total", "counter", "Failed calls.", [({"tool": "look"}, 3)]), sep="\\n")
    # HELP failures_total Failed calls.
    # TYPE failures_total counter
    failures_total{tool="look"} 3
    """
    name = name.replace(".", "_")  # as those of OpenTelemetry are in Prometheus
    if samples and help_text:
        escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
        yield f"# HELP {name} {escaped}"
    if samples:
        yield f"# TYPE {name} {kind}"
    for number, (labels, value) in enumerate(samples):
        if kind != "histogram":
            yield _sample(name, labels, value)
            continue
        sums = list(accumulate(buckets[number]))
        for bound, count in zip((*map(str, bounds), "+Inf"), sums, strict=True):
            yield _sample(f"{name}_bucket", {**labels, "le": bound}, count)
        yield _sample(f"{name}_sum", labels, value)
        yield _sample(f"{name}_count", labels, sums[-1])


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    texts = [f'{label}="{_escaped(text)}"' for label, text in labels.items()]
    return f"{name}{{{','.join(texts)}}} {value!r}" if texts else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
