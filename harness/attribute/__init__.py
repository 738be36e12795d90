# SPDX-License-Identifier: MIT
"""Attributes every GPU op of a trace to the ranges that launched it.

Pure: frames in, arrays out; no loop runs over ranges, launches or ops. The steps are:
link (``link``), nest and locate (``nesting``), name (``paths``), let the policy widen what may
claim (``policy``), name what a graph captured (``graphs``), balance (``ledger``).
"""

from harness.attribute.engine import RULES, Attribution, attribute
from harness.attribute.ledger import Ledger

__all__ = ["RULES", "Attribution", "Ledger", "attribute"]
