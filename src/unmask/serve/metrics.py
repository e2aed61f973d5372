"""Metrics for Prometheus."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .served import Served

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("unmask_requests", "Requests answered", ["path", "status"], registry=self._registry)
        self.seconds = Histogram(
            "unmask_request_seconds", "Time until the end of the response", ["path"], registry=self._registry
        )
        self._rows = Histogram(
            "unmask_network_call_rows", "Rows per network call", ["model"], buckets=_ROWS, registry=self._registry
        )

    def call_observer(self, model: str) -> Callable[[int], None]:
        """A callback for the number of rows in each network call of a model."""
        return partial(_observe, self._rows.labels(model))

    def watch(self, models: dict[str, Served]) -> None:
        """Report the running and waiting jobs of these models."""
        self._registry.register(_Jobs(models))

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)


def _observe(histogram: Histogram, rows: int) -> None:
    histogram.observe(rows)


class _Jobs(Collector):
    def __init__(self, models: dict[str, Served]):
        self._models = models

    def collect(self) -> list[Metric]:
        running = GaugeMetricFamily("unmask_jobs_running", "Running jobs", labels=["model"])
        waiting = GaugeMetricFamily("unmask_jobs_waiting", "Waiting jobs", labels=["model"])
        for name, served in self._models.items():
            running.add_metric([name], served.engine.running)
            waiting.add_metric([name], served.engine.waiting)
        return [running, waiting]
