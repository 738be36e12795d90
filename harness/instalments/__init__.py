# SPDX-License-Identifier: MIT
"""Reports of recordings larger than memory: attributed part by part, the figures merged exactly.

``rows`` names the rows alike in all parts, ``sums`` adds, ``unions`` merges device time across the
borders of parts, ``kernels`` keeps counted durations, ``build`` puts a Report together.
"""

from harness.instalments.build import VIEWS, report_in_parts, rows_within

__all__ = ["VIEWS", "report_in_parts", "rows_within"]
