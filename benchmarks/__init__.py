"""Measurements: each script writes one JSON file under `results/`; `tables.py` turns those into tables."""
