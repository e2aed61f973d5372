"""What a process of ours does with the memory that tensors leave behind."""

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of malloc.h."""
KEPT = 1 << 30
"""Bytes of a block from which on it is given back at once, and of free memory at the end of the heap."""


def keep() -> None:
    """Keep memory for the next tensors instead of giving it back to the system.

    glibc fetches every block of more than 32 MiB anew, and the system fills it with zeros page by page when it is first
    written: on a CPU that takes a quarter of the time of sampling 64 texts at once. Where the C library is another one,
    nothing changes. A program owns its memory and a library does not, so this is for commands alone, and for those that
    end: free memory below something that is still used stays with the process.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    if library.mallopt(_MMAP_THRESHOLD, KEPT):  # older ones refuse it, and the other alone would make things slower
        library.mallopt(_TRIM_THRESHOLD, KEPT)
