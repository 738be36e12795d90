# SPDX-License-Identifier: MIT
"""Sums, unions and distributions of GPU ops over the rows of a view.

Ops with the same ranges around them share a *context*; almost everything is summed once a context
and then spread over the rows the context belongs to, so depth costs nothing an op.
"""

from harness.measures.communication import communication, is_communication
from harness.measures.distribution import distribution, quantiles
from harness.measures.layers import claimed, layer_rows
from harness.measures.rows import Ops, Rows, name_rows, path_row_of_node, path_rows, path_tuples
from harness.measures.totals import per_instance, totals
from harness.measures.unions import busy

__all__ = [
    "Ops",
    "Rows",
    "busy",
    "claimed",
    "communication",
    "distribution",
    "is_communication",
    "layer_rows",
    "name_rows",
    "path_row_of_node",
    "path_rows",
    "path_tuples",
    "per_instance",
    "quantiles",
    "totals",
]
