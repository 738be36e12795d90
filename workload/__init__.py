# SPDX-License-Identifier: MIT
"""What is measured: one block of a network, spelt three ways that share one set of weights."""
