# SPDX-License-Identifier: MIT
"""Puts ``fused_chain.cu`` beside the ``workload`` package in the wheel; the rest is declared in
pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithOperator(build_py):
    """``build_py`` that also copies the operator's source, which lives at the top of the tree."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "workload" / "fused_chain.cu"
            self.mkpath(str(target.parent))
            self.copy_file("fused_chain.cu", str(target))


setup(cmdclass={"build_py": BuildWithOperator})
