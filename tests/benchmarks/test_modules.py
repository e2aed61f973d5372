import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(benchmarks.__path__)])
def test_every_benchmark_can_still_be_imported(name):
    """They are run rarely, and name much of the package."""
    importlib.import_module(f"benchmarks.{name}")
