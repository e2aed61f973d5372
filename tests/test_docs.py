"""The documents tell the truth: their code runs, their commands exist, their tables are the measured ones."""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tables import documents, filled
from tests import processes

ROOT = Path(__file__).parent.parent
PAGES = ("training", "choosing-a-sampler", "evaluation", "performance", "baselines", "sharing", "extending")
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


DATA_PAGE = (ROOT / "docs/data.md").read_text()
PARTS, ORACLE = blocks((ROOT / "docs/extending.md").read_text(), "python")
CODE = blocks(README, "python") + blocks(DATA_PAGE, "python")


def test_the_oracle_tells_what_a_sampler_of_ones_own_does(tmp_path):
    """The exact one is off by its noise alone, for 81 sequences and 20,000 samples 0.02; the others by more."""
    (tmp_path / "parts.py").write_text(PARTS)
    done = processes.run(
        [sys.executable, "-c", ORACLE], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    off = dict(re.findall(r"([\w-]+): off by ([\d.]+)", done.stdout))
    assert float(off["first-hitting"]) < 0.025 < float(off["apart"]) < float(off["ancestral"]), done.stderr


@pytest.mark.parametrize("code", CODE, ids=["bound", "step", "python", "data"])
def test_python_in_documents_runs(code):
    done = processes.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    bounds = re.findall(r"−ELBO ([\d.]+) ± ([\d.]+) nats, −log p ([\d.]+)", done.stdout)
    assert bool(bounds) == ("log_prob" in code)
    for mean, error, truth in bounds:  # near the truth
        assert abs(float(mean) - float(truth)) < 18 * float(error)  # 7 degrees of freedom: false alarm 4e-7 each


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(document):
    """Each `make` line of the documents parses and names a target (running `make test` here would never end)."""
    lines = [line for block in blocks((ROOT / document).read_text(), "bash") for line in block.splitlines()]
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    assert targets
    for target in targets:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{page}.md" for page in PAGES)])
def test_unmask_commands_in_documents_run(document, tmp_path):
    """In order, in an empty folder that has the change log in it, and the module of the page on parts of one's own."""
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    (tmp_path / "parts.py").write_text(PARTS)
    first = ["unmask data prepare CHANGELOG.md --out data/log --length 32"] if "training" in document else []
    text = (ROOT / document).read_text()
    lines = [line for block in blocks(text, "bash") for line in block.splitlines() if line.startswith("unmask ")]
    assert len(lines) >= 2
    command, given = [sys.executable, ROOT / "tests/run_lines.py"], "\n".join(first + lines)
    done = processes.run(command, input=given, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("$ unmask ") == len(first + lines)


def test_every_preset_is_documented():
    from unmask.presets import PRESETS

    page = (ROOT / "docs/training.md").read_text()
    for name in PRESETS:
        assert f"`{name}`" in page or f"`-{name.rsplit('-', 1)[-1]}`" in page, name


def test_every_kind_of_source_is_documented():
    from unmask.data.sources import KINDS, NAMES

    for name in [*KINDS, *NAMES]:
        assert re.search(rf"\b{name}\b", DATA_PAGE), name


def test_file_map_is_complete():
    """Every module of the core and every folder named in the README's map exists, and none is left out."""
    named = set(re.findall(r"^    (\w+\.py)", README, re.MULTILINE))
    real = {p.name for p in (ROOT / "src/unmask/core").glob("*.py")} - {"__init__.py", "checks.py", "numeric.py"}
    assert named == real


@pytest.mark.parametrize("document", documents(), ids=lambda p: p.name)
def test_tables_are_the_measured_ones(document):
    text = document.read_text()
    assert filled(text) == text, "run `make results`"


@pytest.mark.parametrize("document", [*documents(), ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


def slug(heading):
    """The anchor that a heading gets where the documents are read."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_anchors_are_headings(document):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
        page = (document.parent / target if target else document).read_text()
        assert anchor in map(slug, re.findall(r"^#+ (.+)$", page, re.MULTILINE)), (target, anchor)


def test_the_site_is_built_without_a_warning(tmp_path):
    """Strictly: every link leads somewhere, every page is in the contents, every public name of Python is shown."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    contents = (ROOT / "zensical.toml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert f'"{page.relative_to(ROOT / "docs")}"' in contents, page
    for package in ("core", "networks", "data", "sampling", "evaluation", "training", "run", "extend"):
        shown = (tmp_path / "site/api" / package / "index.html").read_text()
        module = importlib.import_module(f"unmask.{package}")
        named = [name for name in module.__all__ if inspect.isroutine(getattr(module, name))]
        assert not [name for name in named if not re.search(rf'id="unmask\.{package}\.(\w+\.)?{name}"', shown)]


def test_names_in_the_maths_page_exist():
    """Every `module.name` or `Class.method` in the page's first table is real."""
    import unmask.core

    page = (ROOT / "docs/maths.md").read_text()
    missing = []
    for owner, name in re.findall(r"`([\w]+)\.(\w+)`", page):
        if hasattr(unmask.core, owner):
            found = hasattr(getattr(unmask.core, owner), name)
        else:
            found = hasattr(importlib.import_module(f"unmask.core.{owner}"), name)
        missing += [] if found else [f"{owner}.{name}"]
    assert not missing
