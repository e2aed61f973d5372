"""Results behind the documents: none may be missing in silence."""

import json

import pytest

from benchmarks import record


def test_every_name_has_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    for name in ("b", "a1", "a2"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"is": name}))
    assert [found["is"] for found in record.load_results("b", "a*")] == ["b", "a1", "a2"]
    with pytest.raises(FileNotFoundError, match=r"no result of the name c\*, d in "):
        record.load_results("a*", "c*", "d")
