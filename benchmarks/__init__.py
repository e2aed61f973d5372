"""Measurements: each script writes JSON under `results/`; `benchmarks.tables` turns these files into tables."""
