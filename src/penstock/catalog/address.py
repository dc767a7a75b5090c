"""Where a PostgreSQL server is and how to log in, in the forms its different clients want. Pure; no connection."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from sqlalchemy import URL

from penstock.errors import InvalidInput
from penstock.hosts import in_url

VARIABLE = "PENSTOCK_DATABASE_URL"
CATALOG_VARIABLE = "PENSTOCK_CATALOG_DATABASE_URL"

# What libpq and the JDBC driver call by the same name and mean the same by.
_OPTIONS = frozenset({"sslmode", "sslrootcert"})


@dataclass(frozen=True)
class DatabaseUrl:
    """One database of one server. `repr` never shows the password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    dbname: str = "postgres"
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str, *, variable: str = VARIABLE) -> DatabaseUrl:
        """`postgresql://user:password@host[:port][/dbname][?sslmode=…]`, parts percent-encoded where needed.

        Raises `InvalidInput`, which names the environment variable that said so, and never repeats the text: it may
        hold a password.
        """
        try:
            parts = urlsplit(text)
            port = parts.port or 5432
        except ValueError as error:
            raise _unusable(variable, str(error)) from None
        if parts.scheme not in ("postgresql", "postgres"):
            raise _unusable(variable, "it does not begin with postgresql://")
        if not parts.hostname or not parts.username:
            raise _unusable(variable, "the host or the user is missing")
        # As libpq reads it: only %20 is a space, and a plus sign is one.
        options = tuple(parse_qsl(parts.query.replace("+", "%2B")))
        if unknown := sorted(name for name, _ in options if name not in _OPTIONS):
            raise _unusable(variable, f"the option {unknown[0]} is not one of {', '.join(sorted(_OPTIONS))}")
        return DatabaseUrl(
            host=parts.hostname,
            port=port,
            user=unquote(parts.username),
            password=unquote(parts.password or ""),
            dbname=unquote(parts.path.removeprefix("/")) or "postgres",
            options=options,
        )

    def at(self, dbname: str) -> DatabaseUrl:
        return replace(self, dbname=dbname)

    def jdbc(self, **more: str) -> str:
        """The JDBC address, without user and password."""
        query = urlencode([*self.options, *more.items()], quote_via=quote)
        return f"jdbc:postgresql://{self._server()}/{quote(self.dbname)}" + (f"?{query}" if query else "")

    def libpq(self) -> str:
        """The libpq address, without the password."""
        query = f"?{urlencode(self.options, quote_via=quote)}" if self.options else ""
        return f"postgresql://{quote(self.user, safe='')}@{self._server()}/{quote(self.dbname)}{query}"

    def sqlalchemy(self) -> URL:
        """For `create_engine`; shown with the password masked."""
        return URL.create(
            "postgresql+psycopg",
            username=self.user,
            password=self.password,
            host=self.host,
            port=self.port,
            database=self.dbname,
            query=dict(self.options),
        )

    def _server(self) -> str:
        return f"{in_url(self.host)}:{self.port}"

    def __str__(self) -> str:
        """For people: no password."""
        return f"postgresql://{self.user}@{self._server()}/{self.dbname}"


def _unusable(variable: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{variable} cannot be used",
        why=why,
        fix="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require, special characters as %XX",
    )
