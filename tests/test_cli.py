"""The command as a user runs it: a real process, its output and its exit code."""

import json
import subprocess
import sys

import pytest

UNMASK = [sys.executable, "-m", "unmask"]


def run(*arguments, **options):
    return subprocess.run([*UNMASK, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


def test_demo_shows_what_it_claims(tmp_path):
    """Tight bounds within 5 standard errors, a picture, and a float32 draw that loses rare tokens."""
    done = run("demo", "--json", "--out", str(tmp_path / "pictures"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    figures = json.loads(done.stdout)
    for bound in figures["bounds"]:
        assert bound["largest_gap"] < (1e-10 if bound["name"] != "geometric" else 1e-3)
        assert abs(bound["bits_per_token"] - bound["true_bits_per_token"]) < 5 * bound["standard_error"] + 1e-3
    ours, legacy = figures["draws"]
    assert ours["p_value"] > 1e-3
    assert legacy["p_value"] < 1e-3
    assert legacy["rare"] < 0.5 * legacy["expected_rare"]
    assert ours["rare"] > 0.9 * ours["expected_rare"]
    picture = (tmp_path / "pictures" / "schedules.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_help_is_quick_and_names_every_command():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert run().stdout == done.stdout
    without_torch = """
import sys
from unmask.cli.main import main
try:
    main(["--help"])
except SystemExit:
    print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", without_torch], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_version():
    import unmask

    assert run("--version").stdout == f"unmask {unmask.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--sed", "3"], "Perhaps you meant: --seed"),
        (["demo", "--seed", "x"], "invalid literal for int() with base 10: 'x'"),
        (["demo", "--seed", "-1"], "seed is out of range: got -1, allowed is 0 <= seed < 2**64"),
        (["dmeo"], "Available subcommands: demo"),
        (["demo", "--out", "/dev/null/pictures"], "Not a directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said):
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_missing_extra_names_the_install_command(tmp_path):
    blocked = """
import sys
sys.modules["matplotlib"] = None
from unmask.cli.main import main
sys.exit(main(["demo", "--out", sys.argv[1]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", blocked, str(tmp_path / "p")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert 'pip install "unmask[plot]"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "p").exists()
