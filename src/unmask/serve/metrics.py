"""Figures for Prometheus."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .served import Served

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("unmask_requests", "Requests answered", ["path", "status"], registry=self._registry)
        self.seconds = Histogram(
            "unmask_request_seconds", "Time to the end of the answer", ["path"], registry=self._registry
        )
        self._rows = Histogram(
            "unmask_network_call_rows", "Rows of a network call", ["model"], buckets=_ROWS, registry=self._registry
        )

    def call_observer(self, model: str) -> Callable[[int], None]:
        """Takes the rows of each network call of a model."""
        return partial(_observe, self._rows.labels(model))

    def watch(self, models: dict[str, Served]) -> None:
        """Show what runs and waits."""
        self._registry.register(_Jobs(models))

    def text(self) -> bytes:
        """In Prometheus' format."""
        return generate_latest(self._registry)


def _observe(histogram: Histogram, rows: int) -> None:
    histogram.observe(rows)


class _Jobs(Collector):
    def __init__(self, models: dict[str, Served]):
        self._models = models

    def collect(self) -> list[Metric]:
        running = GaugeMetricFamily("unmask_jobs_running", "Jobs that run", labels=["model"])
        waiting = GaugeMetricFamily("unmask_jobs_waiting", "Jobs that wait", labels=["model"])
        for name, served in self._models.items():
            running.add_metric([name], served.engine.running)
            waiting.add_metric([name], served.engine.waiting)
        return [running, waiting]
