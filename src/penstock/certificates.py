"""Files of certificates: of authorities that are trusted beside the public ones."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from penstock.errors import InvalidInput

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_MOST_BYTES = 4 << 20


def certificates(path: str) -> list[str]:
    """Each certificate of the file, in PEM, and nothing else of what it holds: it may hold a private key too.

    Raises `InvalidInput` where there is none, or the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            found = _CERTIFICATE.findall(file.read(_MOST_BYTES).decode("utf-8", errors="replace"))
        if found:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(found))
            return found
        why = "it has no -----BEGIN CERTIFICATE-----"
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    raise InvalidInput(
        f"{path} gives no certificates",
        why=why,
        fix="give the certificate of the authority that signed those of the endpoints, as PEM "
        "(openssl x509 -inform der -in ca.der -out ca.pem makes it of one in DER)",
    )
