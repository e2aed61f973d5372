"""The built wheel, installed alone in a clean environment and used."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import unmask

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True)
    return next(out.glob("*.whl"))


def test_wheel_holds_the_package_and_its_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    packaged = {name for name in names if name.startswith("unmask/")}
    source = ROOT / "src/unmask"
    files = [*source.rglob("*.py"), *(source / "serve/studio").iterdir(), *(source / "models").glob("*/*")]
    named = {f"unmask/{path.relative_to(source).as_posix()}" for path in files}
    assert packaged == named | {"unmask/py.typed", "unmask/data/corpus/shakespeare.txt.xz"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_one_version_everywhere(wheel):
    """In the package, the wheel, and what is cited."""
    assert wheel.name.startswith(f"unmask-{unmask.__version__}-")
    assert f"\nversion: {unmask.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_a_checkout_works_without_being_installed(tmp_path):
    """As on a machine where nothing can be installed: the sources on the path, nothing of the package elsewhere."""
    code = "import unmask; print(unmask.__file__, unmask.__version__)"
    command = [sys.executable, "-S", "-c", code]  # without site-packages
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert done.stdout.split() == [str(ROOT / "src/unmask/__init__.py"), unmask.__version__]


def test_wheel_works_in_a_clean_environment(wheel, tmp_path):
    """A fresh environment with the wheel; its dependencies (torch …) are borrowed from this one."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = (
        "import unmask.core, torch; print(unmask.core.__file__);"
        "print(unmask.core.Linear().alpha(torch.tensor([0.25])).item())"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    where, value = done.stdout.splitlines()
    assert Path(where).is_relative_to(site)
    assert value == "0.75"
    command = [str(tmp_path / "env" / "bin" / "unmask"), "sample", "demo", "-n", "1", "--length", "24", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    (text,) = json.loads(done.stdout)["texts"]
    assert len(text.split()) > 5  # words of English
