# SPDX-License-Identifier: MIT
"""A copy of an nsys export without what it says about the machine and its user.

Kept: ranges, launches, GPU ops, thread names of the profiled processes, GPU and driver facts, a
pseudonym for the UUID of a GPU. Gone: environment, command line, working folder, host and user
names, other processes, the program's output, and folders of users. What stays is an allow-list;
what is not known goes.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.gpu_ids import pseudonym, replace_uuids
from harness.readers.inspect_report import columns, environment, opened

REMOVED = "(removed)"
#: Facts of the capture that stay: how it was recorded, nothing about where.
_CAPTURE = re.compile(
    r"^(CAPTURE_EVENT_TYPE|RATE_HZ|START_TRIGGER|STOP_TRIGGER|START_DELAY_MS|RUN_DURATION_\w+"
    r"|INCLUDE_CHILDREN|NVTX_OPTIONS:\w+|PROCESS_\d+:(COLLECT|CUDA)_[\w:]+|HOTKEY_\w+)$"
)
_SYSTEM = re.compile(
    r"^(Cpu\w+|CudaDriverVersion|NvDriverVersion|OsDescription|KernelVersion|Has\w+|Supports\w+"
    r"|GpuInfo|HardwarePlatform|SoftwarePlatform|LinuxParanoidLevel|IsX86BasedDevice)$"
)
_EXPORT = re.compile(
    r"^EXPORT_(PRODUCT_\w+|SCHEMA_\w+|PLATFORM|ARCH|TIME_UTC|PARAM_(LAZY|TIME_\w+)|CONFIG_\w+)$"
)
#: Whole contents that go: what the program printed, files nsys packed in.
_EMPTIED = (
    "ProcessStreams",
    "ANALYSIS_FILE",
    "TARGET_INFO_NIC_INFO",
    "OSRT_FILE_ACCESS_DESCRIPTORS",
)
_USER_FOLDER = re.compile(r"(/home|/Users|/root|/tmp|/scratch|/mnt|/work\w*|/data)(/[^\s\"':,;)]+)")


_EVERYDAY = re.compile(r"[\d.:/,;-]+|/(usr|bin|etc|opt|lib)[\w./:-]*")


def scrub(source: Path, target: Path) -> None:
    """Write ``target``, a scrubbed copy of the export ``source``, and search it for leftovers.

    Raises:
        UnreadableReport: ``source`` is not an export.
        HarnessError: something that had to go is still in the copy; the copy is removed.
    """
    with opened(source) as db:
        columns(db, "StringIds")
        facts = environment(db)
        secrets = _secrets(db, facts)
        uuids = _uuids(db)
        with closing(sqlite3.connect(target)) as copy:
            db.backup(copy)
    with closing(sqlite3.connect(target)) as copy:
        copy.text_factory = lambda raw: raw.decode("utf-8", "replace")
        _delete_rows(copy)
        _blank_strings(copy)
        _clean_text(copy, secrets, uuids)
        copy.commit()
        # Deleted text stays in the file's free pages until they are rewritten.
        copy.execute("VACUUM")
    left = [name for name, text in secrets.items() if _in_file(target, text)]
    left += ["the UUID of a GPU" for uuid in uuids if _in_file(target, uuid)]
    if left:
        target.unlink()
        raise HarnessError(
            f"{source}: the copy still holds {', '.join(sorted(left))}; it was removed",
            hint="Please report this with the nsys version; do not share the file.",
        )


def _secrets(db: sqlite3.Connection, facts: dict[str, str]) -> dict[str, str]:
    """Label -> text that must not be in the copy. Everyday values would match by chance."""
    found = {
        f"the value of {name}": value
        for name, value in facts.items()
        if len(value) >= 8
        and not re.fullmatch(r"[\d.:/,;-]+|/(usr|bin|etc|opt|lib)[\w./:-]*", value)
    }
    for table, key in (
        ("TARGET_INFO_SYSTEM_ENV", "Hostname"),
        ("META_DATA_EXPORT", "EXPORT_HOST"),
        ("META_DATA_EXPORT", "EXPORT_USER"),
        ("META_DATA_CAPTURE", "PROCESS_0:WORKING_DIR"),
        ("META_DATA_CAPTURE", "PROCESS_0:USER_NAME"),
    ):
        if columns(db, table):
            for (value,) in db.execute(f"SELECT value FROM {table} WHERE name = ?", (key,)):
                if value and len(str(value)) >= 4 and value not in {"root", "/tmp", REMOVED}:
                    found[key] = str(value)
    return found


def _uuids(db: sqlite3.Connection) -> set[str]:
    """UUIDs of GPUs, as the export writes them, that are no pseudonyms."""
    found: set[str] = set()
    for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"):
        if "uuid" in columns(db, table):
            rows = db.execute(f"SELECT DISTINCT uuid FROM {table} WHERE length(uuid) >= 16")
            found.update(str(uuid) for (uuid,) in rows)
    return {uuid for uuid in found if pseudonym(uuid) != uuid}


def _delete_rows(db: sqlite3.Connection) -> None:
    for table in _EMPTIED:
        if columns(db, table):
            db.execute(f"DELETE FROM {table}")
    for table, kept in (
        ("META_DATA_CAPTURE", _CAPTURE),
        ("TARGET_INFO_SYSTEM_ENV", _SYSTEM),
        ("META_DATA_EXPORT", _EXPORT),
        ("EXPORT_META_DATA", _EXPORT),
    ):
        if columns(db, table):
            names = [str(name) for (name,) in db.execute(f"SELECT DISTINCT name FROM {table}")]
            gone = [(name,) for name in names if not kept.match(name)]
            db.executemany(f"DELETE FROM {table} WHERE name = ?", gone)
    _delete_other_processes(db)


def _delete_other_processes(db: sqlite3.Connection) -> None:
    """Processes and threads that did nothing in this report, and the names of those that did."""
    active: set[int] = set()
    for table, column in (
        ("NVTX_EVENTS", "globalTid"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
    ):
        if column in columns(db, table):
            active.update(
                row[0] for row in db.execute(f"SELECT DISTINCT {column} >> 24 FROM {table}")
            )
    for table, column in (("PROCESSES", "globalPid"), ("ThreadNames", "globalTid")):
        if column in columns(db, table):
            rows = db.execute(f"SELECT DISTINCT {column} >> 24 FROM {table}").fetchall()
            gone = [row for row in rows if row[0] not in active]
            db.executemany(f"DELETE FROM {table} WHERE {column} >> 24 = ?", gone)
    if "name" in columns(db, "PROCESSES"):
        db.execute("UPDATE PROCESSES SET name = 'program'")


def _blank_strings(db: sqlite3.Connection) -> None:
    """Empty the strings that nothing refers to any more; the schema says which columns refer."""
    referring: list[str] = []
    for table, sql in db.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%StringIds(id)%'"
    ).fetchall():
        for line in str(sql).splitlines():
            match = re.match(r"\s*(\w+).*REFERENCES StringIds\(id\)", line)
            if match:
                referring.append(f'SELECT "{match[1]}" AS id FROM "{table}"')
    if referring:
        db.execute(
            "UPDATE StringIds SET value = '' WHERE id NOT IN (SELECT id FROM "
            f"({' UNION '.join(referring)}) WHERE id IS NOT NULL)"
        )


def _clean_text(db: sqlite3.Connection, secrets: dict[str, str], uuids: set[str]) -> None:
    """Take folders, and whatever must not be there, out of every text that stays."""
    longest_first = sorted(secrets.values(), key=len, reverse=True)

    def clean(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        text = replace_uuids(text, uuids)
        for secret in longest_first:
            text = text.replace(secret, REMOVED)
        return _USER_FOLDER.sub(lambda m: "(path)/" + m[2].rsplit("/", 1)[1], text)

    db.create_function("clean", 1, clean, deterministic=True)
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if table.startswith(("ENUM_", "sqlite_")):
            continue
        for _, column, kind, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall():
            if "TEXT" in str(kind).upper() or (table, column) == ("StringIds", "value"):
                db.execute(
                    f'UPDATE "{table}" SET "{column}" = clean("{column}") '
                    f'WHERE "{column}" IS NOT clean("{column}")'
                )


def _in_file(path: Path, text: str) -> bool:
    """Whether the bytes of a text are anywhere in a file."""
    wanted = text.encode("utf-8", "replace")
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            if wanted in tail + chunk:
                return True
            tail = chunk[-len(wanted) :]
    return False
