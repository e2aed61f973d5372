"""Where models are pushed to and fetched from: the Hugging Face hub, or a folder."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..files import atomic_folder, check_replaceable
from ..mistakes import extra, fail, first_line
from .folder import CARD, FILES, Exported

PREFIX, LOCAL = "hub:", "file:"


class Place(Protocol):
    """Where a model can be pushed to."""

    @property
    def name(self) -> str:
        """The name of the model there, for its card."""

    def check(self, *, private: bool) -> None:
        """Fail if a model cannot be pushed there, as far as this can be checked beforehand."""

    def push(self, folder: Path, *, private: bool, message: str) -> str:
        """Push the files of an exported model; returns where they are now."""


@dataclass(frozen=True)
class FolderPlace:
    """A folder on this machine, or on a mounted file system."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def check(self, *, private: bool) -> None:
        if private:
            fail("a folder has no visibility", got="--private", allowed="a hub repository", do="leave it out")
        check_replaceable(self.path, FILES, optional=[CARD])

    def push(self, folder: Path, *, private: bool, message: str) -> str:
        del message  # a folder has no history
        self.check(private=private)
        with atomic_folder(self.path, FILES, optional=[CARD]) as partial:
            for name in FILES:
                if (folder / name).exists():
                    shutil.copyfile(folder / name, partial / name)
        return str(self.path)


@dataclass(frozen=True)
class HubPlace:
    """A model repository on the Hugging Face hub, with the token of huggingface_hub (HF_TOKEN, or hf auth login)."""

    repo: str

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.repo}"

    def check(self, *, private: bool) -> None:
        del private  # the hub supports both
        extra("huggingface_hub", "hub", "pushing a model")

    def push(self, folder: Path, *, private: bool, message: str) -> str:
        library = extra("huggingface_hub", "hub", "pushing a model")
        with _plainly(self.repo):
            api = library.HfApi()
            name = api.create_repo(self.repo, private=private, exist_ok=True).repo_id
            api.upload_folder(repo_id=name, folder_path=str(folder), commit_message=message, allow_patterns=list(FILES))
        return f"{PREFIX}{name}"


def place(target: str) -> Place:
    """Parse a target: file:PATH or a path that begins with ., / or ~ is a folder, OWNER/NAME a repository."""
    if target.startswith(LOCAL):
        return FolderPlace(Path(target.removeprefix(LOCAL)))
    if target.startswith((".", "/", "~")):
        return FolderPlace(Path(target).expanduser())
    repo = target.removeprefix(PREFIX)
    with _plainly(repo):
        _check_name(repo)
    return HubPlace(repo)


def fetched(repo: str) -> Exported:
    """Fetch a model from the hub, OWNER/NAME or OWNER/NAME@REVISION, into the cache of huggingface_hub."""
    library = extra("huggingface_hub", "hub", "fetching a model")
    name, _, revision = repo.partition("@")
    with _plainly(name):
        _check_name(name)
        folder = Path(library.snapshot_download(name, revision=revision or None, allow_patterns=list(FILES)))
    missing = [file for file in FILES if file != CARD and not (folder / file).exists()]
    if missing:
        allowed = "a model pushed by unmask push"
        fail(f"{PREFIX}{repo} is not an unmask model", got=f"no {missing[0]}", allowed=allowed, do="check the name")
    return Exported(folder, folder.parent.parent)


def _check_name(repo: str) -> None:
    extra("huggingface_hub.utils", "hub", "the hub").validate_repo_id(repo)
    if repo.count("/") != 1:
        fail("this is not a repository name", got=repo, allowed="OWNER/NAME", do="give both")


@contextmanager
def _plainly(repo: str) -> Iterator[None]:
    """Report errors of the hub and of the connection in one line each."""
    errors: Any = extra("huggingface_hub.errors", "hub", "the hub")
    if not sys.stderr.isatty():
        extra("huggingface_hub.utils", "hub", "the hub").disable_progress_bars()
    try:
        yield
    except errors.HFValidationError:
        fail("this is not a repository name", got=repo, allowed="OWNER/NAME", do="use letters, digits, -, _ and .")
    except (errors.LocalTokenNotFoundError, errors.GatedRepoError) as error:
        fail("the hub requires a token", got=first_line(error), allowed="HF_TOKEN, or hf auth login", do="set one")
    except errors.RepositoryNotFoundError as error:
        do = "check the name; a private one needs HF_TOKEN"
        fail(f"{repo} is not on the hub", got=first_line(error), allowed="a repository you can see", do=do)
    except errors.RevisionNotFoundError as error:
        fail(
            f"{repo} has no such revision",
            got=first_line(error),
            allowed="a branch, tag or commit",
            do="check its name",
        )
    except errors.HfHubHTTPError as error:
        do = "set HF_TOKEN to a token with write access" if _status(error) in (401, 403) else "try again later"
        fail("the hub refused the request", got=first_line(error), allowed="a repository you may use", do=do)
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HTTPError, ConnectionError) as error:
        do = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE"
        fail("the hub cannot be reached", got=first_line(error), allowed="a connection, or a cached model", do=do)


def _status(error: Any) -> int | None:
    found: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return found
