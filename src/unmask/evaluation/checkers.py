"""Checkers for samples that are valid or not."""

from collections.abc import Callable, Iterable

from ..mistakes import extra, fail

Checker = Callable[[str], str | None]
"""The canonical form of a valid sample, by which two samples are the same; None for an invalid one."""


def forms(texts: Iterable[str], checker: Checker) -> list[str]:
    """The forms of the valid ones."""
    return [form for form in map(checker, texts) if form is not None]


def if_valid(check: Callable[[str], bool]) -> Checker:
    """The checker for samples that have only one form."""
    return lambda text: text if check(text) else None


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

    def canonical(text: str) -> str | None:
        molecule = chem.MolFromSmiles(text) if text else None
        return None if molecule is None else str(chem.MolToSmiles(molecule))

    return canonical


CHECKERS: dict[str, Callable[[], Checker]] = {
    "brackets": lambda: if_valid(balanced_brackets),
    "sudoku": lambda: if_valid(solved_sudoku),
    "smiles": _smiles,
}


def find_checker(name: str) -> Checker:
    """The checker with this name."""
    if name not in CHECKERS:
        fail("unknown checker", got=name, allowed=", ".join(CHECKERS), do="choose one of them")
    return CHECKERS[name]()
