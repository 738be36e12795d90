# SPDX-License-Identifier: MIT
"""Which variables a recorded program gets."""

from __future__ import annotations

import pytest

from harness.launch.environment import allow_listed, allowed, full, looks_secret


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LC_ALL",
        "CUDA_VISIBLE_DEVICES",
        "PYTHONPATH",
        "TORCH_LOGS",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "RANK",
        "MASTER_PORT",
        "PYTORCH_CUDA_ALLOC_CONF",
        "LD_LIBRARY_PATH",
        "TOKENIZERS_PARALLELISM",
        "HF_HOME",
        "PWD",
        "TMPDIR",
    ],
)
def test_what_a_torch_program_needs_passes(name: str) -> None:
    assert allowed(name, "1")


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "WANDB_API_KEY",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "HTTP_PROXY",
        "MY_SETTING",
    ],
)
def test_what_is_not_listed_is_withheld(name: str) -> None:
    assert not allowed(name, "x")


@pytest.mark.parametrize(
    "name",
    [
        "TORCH_HUB_TOKEN",
        "CUDA_LICENSE_KEY",
        "PYTHON_KEYRING_PASSWORD",
        "NVIDIA_API_KEY",
        "XLA_AUTH_COOKIE",
        "HARNESS_SECRET",
    ],
)
def test_a_secret_within_a_listed_family_is_withheld(name: str) -> None:
    assert looks_secret(name)
    assert not allowed(name, "x")


@pytest.mark.parametrize(
    "value",
    [
        "https://user:hunter22@host/simple",
        "ghp_abcdefghij0123456789",
        "hf_abcdefghijkl",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_a_value_shaped_like_a_secret_is_withheld_whatever_its_name(value: str) -> None:
    assert not allowed("TORCH_HOME", value)


@pytest.mark.parametrize("name", ["MONKEY", "KEYBOARD_LAYOUT", "COMPASS", "PATHS", "TURKEY_SIZE"])
def test_words_that_only_contain_key_or_pass_are_no_secrets(name: str) -> None:
    assert not looks_secret(name, "en_GB")


def test_allow_list_names_what_it_withholds_and_env_adds_one() -> None:
    environ = {"PATH": "/bin", "HF_TOKEN": "hf_x", "EDITOR": "vi"}
    assert allow_listed(environ).variables == {"PATH": "/bin"}
    assert allow_listed(environ).withheld == ("EDITOR", "HF_TOKEN")
    added = allow_listed(environ, ["HF_TOKEN"])
    assert added.variables == {"PATH": "/bin", "HF_TOKEN": "hf_x"}
    assert added.withheld == ("EDITOR",)


def test_full_environment_is_all_of_it() -> None:
    environ = {"A": "1", "HF_TOKEN": "x"}
    assert full(environ).variables == environ
    assert full(environ).withheld == ()
