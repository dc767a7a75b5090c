"""Hosts as URLs name them. Pure."""

from __future__ import annotations


def in_url(host: str) -> str:
    """Names and IPv4 addresses as they are, IPv6 addresses in brackets (RFC 3986, 3.2.2)."""
    return f"[{host}]" if ":" in host else host
