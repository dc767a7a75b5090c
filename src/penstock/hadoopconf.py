"""Hadoop's configuration files: what its `Configuration` reads back as exactly the given keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape


def configuration_xml(settings: Mapping[str, str]) -> str:
    """The content of a `…-site.xml`."""
    properties = "".join(
        f"  <property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{properties}</configuration>\n'
