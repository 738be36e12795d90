# SPDX-License-Identifier: MIT
"""Which environment variables a recorded program gets.

An nsys report carries the program's whole environment, so a token in it leaks with the file.
A run with an nsys pass therefore starts *all* its passes with an allow-list: one that differed
between the passes would make them executions of two different programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: Names that pass as they are: where things are, how text is written, who is which rank.
# fmt: off
ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "TMP", "TEMP", "PWD", "COLUMNS", "LINES", "NO_COLOR", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "LIBRARY_PATH", "CPATH", "CC", "CXX", "CXXFLAGS", "CFLAGS", "LDFLAGS", "MAX_JOBS",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE",
    "TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM", "RANK",
    "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NNODES",
    "SLURM_CPUS_PER_TASK",
})
# fmt: on
#: Families of settings that PyTorch, CUDA, the compilers and the profilers read.
# fmt: off
ALLOWED_PREFIXES = (
    "LC_", "PYTHON", "CUDA_", "CUDNN_", "CUBLAS", "CUSPARSE_", "CUTENSOR_", "NVIDIA_", "NVTX_",
    "NVTE_", "NSYS_", "NVCC_", "NCCL_", "UCX_", "GLOO_", "TORCH_", "TORCHINDUCTOR_",
    "TORCHELASTIC_", "PYTORCH_", "TORCHDYNAMO_", "TRITON_", "ATEN_", "C10_", "KINETO_", "AOT_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "NUMBA_", "XLA_", "JAX_",
    "TF_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_", "MALLOC_", "HARNESS_",
)
# fmt: on

# fmt: off
_SECRET_WORDS = frozenset({
    "TOKEN", "TOKENS", "KEY", "KEYS", "APIKEY", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS",
    "PASSWD", "PASSPHRASE", "PASS", "PWD", "CREDENTIAL", "CREDENTIALS", "CREDS", "AUTH",
    "COOKIE", "COOKIES", "PRIVATE", "DSN", "PAT", "SAS", "JWT", "BEARER", "SIGNATURE",
})
# fmt: on
_SECRET_PARTS = re.compile(
    "PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|ACCESSKEY|AUTHTOKEN|ACCESSTOKEN"
)
_HARMLESS = frozenset({"PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK"})
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # a password inside an address
    r"|\b(gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|npm_|pypi-|nvapi-)\w{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\."  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)


def looks_secret(name: str, value: str = "") -> bool:
    """Whether a variable's name, or the shape of its value, is that of a secret."""
    upper = name.upper()
    if upper not in _HARMLESS:
        if _SECRET_WORDS.intersection(re.split(r"[^A-Z0-9]+", upper)):
            return True
        if _SECRET_PARTS.search(upper):
            return True
    return bool(_SECRET_VALUE.search(value))


def allowed(name: str, value: str = "") -> bool:
    """Whether a variable is on the allow-list and does not look like a secret."""
    known = name in ALLOWED or name.startswith(ALLOWED_PREFIXES)
    return known and not looks_secret(name, value)


@dataclass(frozen=True)
class Environment:
    """What the passes get. ``withheld`` holds names only."""

    variables: dict[str, str]
    withheld: tuple[str, ...]
    mode: str  # "full" | "allow-list"


def full(environ: Mapping[str, str]) -> Environment:
    return Environment(dict(environ), (), "full")


def allow_listed(environ: Mapping[str, str], extra: Iterable[str] = ()) -> Environment:
    """The allow-listed part of ``environ``, and the variables named in ``extra``."""
    wanted = set(extra)
    passed = {k: v for k, v in environ.items() if k in wanted or allowed(k, v)}
    return Environment(passed, tuple(sorted(environ.keys() - passed.keys())), "allow-list")
