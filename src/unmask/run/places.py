"""Finding a model by name or path: a run, an exported model, a shipped one, or one on the hub."""

import os
from pathlib import Path

from ..mistakes import fail, nearest
from . import hub
from .folder import CHECKPOINTS, CONFIG, WEIGHTS, Exported, ModelFolder, Run

SHIPPED = Path(__file__).parent.parent / "models"
"""A folder for each model that comes with the package."""
PICKLED = (".bin", ".ckpt", ".pkl", ".pt", ".pth")


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{WEIGHTS}"))


def shipped_model(name: str) -> Exported:
    """A model that comes with the package."""
    return Exported(SHIPPED / name, SHIPPED / name)


def find_model(model: Path | str | ModelFolder) -> ModelFolder:
    """Find a model: a folder made by `unmask train` or `unmask export`, hub:OWNER/NAME, or the name of a shipped model.

    A folder with the name of a shipped model is used only if it holds a model, or is written with a separator (./demo).
    One that was found is returned as it is.
    """
    if isinstance(model, ModelFolder):
        return model
    name = str(model)
    if name.startswith(hub.PREFIX):
        return hub.fetched(name.removeprefix(hub.PREFIX))
    if os.sep not in name and not (Path(name) / CONFIG).exists() and name in shipped():
        return shipped_model(name)
    return opened(Path(name))


def opened(folder: Path) -> ModelFolder:
    """Open the run or the exported model in a folder."""
    if not (folder / CONFIG).exists():
        fail(
            f"{folder} is not a run or a model",
            got="no config.json in it" if folder.is_dir() else "no such folder",
            allowed=", ".join(
                ["a folder made by unmask train or unmask export", f"{hub.PREFIX}OWNER/NAME", *shipped()]
            ),
            do=nearest(str(folder), shipped(), "check the path"),
        )
    if (folder / WEIGHTS).exists() or (folder / WEIGHTS).is_symlink():
        return Exported(folder, folder)
    pickled = [path.name for path in folder.iterdir() if path.suffix in PICKLED]
    if pickled and not (folder / CHECKPOINTS).exists():
        do = "get the model from someone who has safetensors: a pickle can run any program"
        fail(f"{folder} has no weights that are safe to read", got=pickled[0], allowed=WEIGHTS, do=do)
    return Run(folder)
