# SPDX-License-Identifier: MIT
"""Starting programs, once per pass, and keeping what they leave in a run folder."""
