# SPDX-License-Identifier: MIT
"""Dictionary encoding of text given as Arrow offsets and bytes: no Python string per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Odd multipliers of the row hash; fixed, so that codes do not change from run to run.
_MULTIPLIERS = np.random.default_rng(88).integers(0, 2**63, 64, np.uint64) * 2 + 1


class TextEncoder:
    """Gives each distinct text a code, in order of first appearance, across many batches."""

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {}

    def labels(self) -> list[str]:
        """The text of each code. Range names are whatever bytes the program passed: bytes that
        are not UTF-8 become U+FFFD."""
        return [text.decode("utf-8", "replace") for text in self._codes]

    def code(self, text: bytes) -> int:
        """The code of one text."""
        return self._codes.setdefault(text, len(self._codes))

    def encode(
        self, offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.int32]:
        """Codes of one batch; row ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""
        lengths = np.diff(offsets)
        group = np.empty(len(lengths), np.int64)  # of equal texts, in any order
        found: list[tuple[int, int, bytes]] = []  # first row, group, text
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            block = data[offsets[rows][:, None] + np.arange(length)]
            first, inverse = _distinct(block)
            group[rows] = inverse + len(found)
            found += [
                (row, len(found) + i, block[j].tobytes())
                for i, (row, j) in enumerate(zip(rows[first].tolist(), first, strict=True))
            ]
        codes = np.empty(len(found), np.int32)
        for _, number, text in sorted(found):
            codes[number] = self.code(text)
        return codes[group]


def _distinct(
    block: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Row numbers of the distinct rows of ``block``, and for each row which of them it equals."""
    length = block.shape[1]
    if not length:
        return np.zeros(1, np.intp), np.zeros(len(block), np.intp)
    words = np.zeros((len(block), -(-length // 8) * 8), np.uint8)
    words[:, :length] = block
    wide = words.view(np.uint64)
    hashes = np.zeros(len(block), np.uint64)
    for i in range(wide.shape[1]):
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MULTIPLIERS[(i + 7) % 64]
        hashes += wide[:, i] * _MULTIPLIERS[i % 64]
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    if not np.array_equal(wide[first][inverse], wide):
        # Two texts with one hash: compare the bytes themselves.
        text = np.ascontiguousarray(block).view(f"S{length}").ravel()
        _, first, inverse = np.unique(text, return_index=True, return_inverse=True)
    return first, inverse
