"""Every application: what is read from the lake or written to it stays near, for the next reader.

Where the pages are kept and how many there may be belongs to a machine, not to a profile: the cluster's backend says it
(`penstock cache status`).
"""

from __future__ import annotations

from penstock.profiles.setting import Setting
from penstock.profiles.sources import MEMORY_ACCELERATOR

_S3A = "spark.hadoop.fs.s3a."
_GUIDE = "docs/guide/filesystem.md, 'Cache'"

PREFIX = _S3A + "penstock.cache."
ENABLED = PREFIX + "enabled"
MEMORY = (PREFIX + "memory.size", PREFIX + "memory.dir")

SETTINGS = (
    Setting(
        ENABLED,
        "true",
        "Pages that were read or written once are read again from this machine's memory or disk, also by the next "
        "application: the store is asked only for what is new",
        f"{_GUIDE}; {MEMORY_ACCELERATOR}",
    ),
    Setting(
        _S3A + "input.stream.type",
        "custom",
        "S3A's own way of letting another class read objects; everything else of it stays as it is",
        _GUIDE,
    ),
    Setting(
        _S3A + "input.stream.custom.factory",
        "io.penstock.fs.read.PageStreamFactory",
        "Reads through the page cache; what is in no page is fetched by as few requests as will do",
        _GUIDE,
    ),
    Setting(
        _S3A + "impl",
        "io.penstock.fs.PenstockFileSystem",
        "S3A that also says on which hosts a file's pages are wanted, and leaves the pages of what it writes behind",
        "docs/guide/filesystem.md, 'Locality'",
    ),
)
