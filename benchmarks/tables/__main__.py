"""`python -m benchmarks.tables`."""

from . import documents, filled

for document in documents():
    document.write_text(filled(document.read_text()))
