# SPDX-License-Identifier: MIT
"""What would spoil a profile: one function a trap, each with its evidence and its fix.

Checks are pure: they are given facts (``Machine``, ``ReportFacts``) and return a ``Finding``.
"""

from __future__ import annotations

from harness.doctor.findings import Finding, Machine
from harness.doctor.machine import check_machine
from harness.doctor.report import check_report

__all__ = ["Finding", "Machine", "check_machine", "check_report"]
