# SPDX-License-Identifier: MIT
# For people who develop. People who use the project want scripts/.
.PHONY: test lint docs bench clean

test:  ## style, types, the whole suite
	scripts/test

lint:  ## mend what can be mended, complain about the rest
	scripts/setup dev
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	.venv/bin/mypy

docs:  ## docs/cli.md from the commands' own help
	scripts/docs

bench:  ## harness report beside nsys stats and a bare scan
	scripts/bench

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
