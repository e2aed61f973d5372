"""Checkers for samples that are valid or not."""

from collections.abc import Callable
from dataclasses import dataclass

from ..mistakes import extra, fail


@dataclass(frozen=True)
class Checker:
    """Tells whether a sample is valid, and when two samples are the same."""

    check: Callable[[str], bool]
    form: Callable[[str], str] = str
    """Canonical form of a valid sample: two with one form are the same. Default: the sample itself."""

    def __call__(self, text: str) -> bool:
        """Whether a sample is valid."""
        return self.check(text)


def balanced_brackets(text: str) -> bool:
    """Whether (), [] and {} close what they open."""
    pairs, opened = {")": "(", "]": "[", "}": "{"}, []
    for character in text:
        if character in pairs.values():
            opened.append(character)
        elif character in pairs and (not opened or opened.pop() != pairs[character]):
            return False
    return not opened


def solved_sudoku(text: str) -> bool:
    """Whether 81 digits, row by row, have 1..9 in every row, column and box."""
    cells = [c for c in text if not c.isspace()]
    if len(cells) != 81:
        return False
    units = [[9 * i + j for j in range(9)] for i in range(9)]
    units += [[9 * j + i for j in range(9)] for i in range(9)]
    units += [[27 * (i // 3) + 3 * (i % 3) + 9 * (j // 3) + j % 3 for j in range(9)] for i in range(9)]
    return all({cells[place] for place in unit} == set("123456789") for unit in units)


def _smiles() -> Checker:
    """Whether RDKit parses the text as a molecule; a molecule has many SMILES, of which one is canonical."""
    chem = extra("rdkit.Chem", "molecules", "checking molecules")
    extra("rdkit.RDLogger", "molecules", "checking molecules").DisableLog("rdApp.*")
    return Checker(lambda text: bool(text) and chem.MolFromSmiles(text) is not None, chem.CanonSmiles)


CHECKERS: dict[str, Callable[[], Checker]] = {
    "brackets": lambda: Checker(balanced_brackets),
    "sudoku": lambda: Checker(solved_sudoku),
    "smiles": _smiles,
}


def find_checker(name: str) -> Checker:
    """The checker with this name."""
    if name not in CHECKERS:
        fail("unknown checker", got=name, allowed=", ".join(CHECKERS), do="choose one of them")
    return CHECKERS[name]()
