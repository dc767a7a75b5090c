"""What a client of any dialect asks for, before it means anything here. Plain data: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EXECUTORS = "spark.executor.instances"


@dataclass(frozen=True)
class Volume:
    """A named volume of files, seen by the application below `mount_path`; `source` is a directory inside it."""

    name: str
    mount_path: str
    source: str = ""


@dataclass(frozen=True)
class Asked:
    """`settings` hold the sizes too, under Spark's own names; they may hold a store's keys, so `repr` shows none."""

    application: str
    arguments: tuple[str, ...] = ()
    main_class: str | None = None
    name: str | None = None
    jars: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    volumes: tuple[Volume, ...] = ()
