# SPDX-License-Identifier: MIT
"""Integer ids and labels to pandas categoricals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

#: Widest span of ids that gets a table with one slot an id instead of a hash table.
_TABLE = 1 << 20
#: Ids worked on at once: 2 MB.
_BLOCK = 1 << 18


def codes_of(ids: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Codes for ``ids`` and the id of each code, ascending."""
    if not len(ids):
        return np.empty(0, np.int8), np.empty(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if low == high:
        return np.zeros(len(ids), np.int8), np.array([low], np.int64)
    if high - low >= _TABLE:
        codes, unique = pd.factorize(ids, sort=True)
        return codes.astype(_smallest(len(unique)), copy=False), np.asarray(unique, np.int64)
    present = np.zeros(high - low + 1, bool)
    for block in _blocks(ids):
        present[block - low] = True
    unique = np.flatnonzero(present)
    table = np.zeros(high - low + 1, _smallest(len(unique)))
    table[unique] = np.arange(len(unique))
    out = np.empty(len(ids), table.dtype)
    for at, block in enumerate(_blocks(ids)):
        out[at * _BLOCK : at * _BLOCK + len(block)] = table[block - low]
    return out, unique + low


def _blocks(ids: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Parts of ``ids``: a temporary of full length would cost new memory."""
    return (ids[low : low + _BLOCK] for low in range(0, len(ids), _BLOCK))


def categorical(codes: npt.NDArray[Any], labels: Sequence[str]) -> pd.Categorical:
    """A categorical of text from codes into ``labels``, which may repeat."""
    distinct = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    if len(distinct) < len(labels):
        wanted = np.array([distinct[label] for label in labels], _smallest(len(distinct)))
        codes = wanted[codes]
    else:
        codes = codes.astype(_smallest(len(distinct)), copy=False)
    dtype = pd.CategoricalDtype(pd.Index(list(distinct), dtype=object))
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)


def _smallest(count: int) -> type[np.signedinteger[Any]]:
    """The type that pandas itself would choose for codes below ``count``."""
    return next(t for t in (np.int8, np.int16, np.int32, np.int64) if count <= np.iinfo(t).max)
