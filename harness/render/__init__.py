# SPDX-License-Identifier: MIT
"""Reports to text. Renderers return strings (or yield them, when rows may be millions)."""
