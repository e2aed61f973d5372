"""The distributions behind 95 % intervals, and how figures with errors are written."""

import math

Z95 = 1.959963984540054
"""Half-width of the interval that holds 95 % of a normal distribution, in standard errors."""


def student95(freedom: int) -> float:
    """Half-width of the interval that holds 95 % of Student's t distribution, in standard errors.

    Exact for one and two degrees of freedom, within 1 % from three on: an expansion around the normal distribution
    (Abramowitz and Stegun, 26.7.5).
    """
    z, within = Z95, 0.95
    if freedom < 1:
        return math.inf
    if freedom <= 2:
        return math.tan(math.pi * within / 2) if freedom == 1 else within * math.sqrt(2 / (1 - within**2))
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms)))


def wilson(share: float, of: float) -> tuple[float, float]:
    """The 95 % interval of a share of `of` trials: all p whose error explains it; within 0 and 1, never empty."""
    z2 = Z95**2 / of
    half = Z95 * math.sqrt((share * (1 - share) + z2 / 4) / of)
    low, high = ((share + z2 / 2 + sign * half) / (1 + z2) for sign in (-1, 1))
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # rounding


def decimal(value: float | None, digits: int) -> str:
    """A number with this many digits; a dash for NaN or None, such as the error of a single sequence."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int) -> str:
    """Both ends of an interval; one dash if there is none."""
    ends = decimal(low, digits), decimal(high, digits)
    return ends[0] if ends[0] == ends[1] == decimal(None, digits) else "–".join(ends)
