"""Where things are on this machine is for who sits at it: outside, its directories have names instead of paths."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import PenstockError
from penstock.home import Home

_PACKAGE = Path(__file__).parents[1]

Error = TypeVar("Error", bound=PenstockError)


class OurPaths:
    def __init__(self, home: Home) -> None:
        root = home.root.absolute()
        named = {
            root: "$PENSTOCK_HOME",
            root.parent: "$PENSTOCK_HOME/..",
            _PACKAGE: "PENSTOCK",
            Path(sys.prefix): "PYTHON",
            Path.home(): "~",
        }
        # The longest first, for one may be in another; never the root of all, which is in every path.
        self._names = sorted(
            ((str(path), name) for path, name in named.items() if len(path.parts) > 1), key=lambda one: -len(one[0])
        )

    def hidden(self, text: str) -> str:
        for path, name in self._names:
            if path in text:
                text = text.replace(path, name)
        return text

    def hidden_in(self, value: Any) -> Any:
        """The same JSON without them."""
        if isinstance(value, str):
            return self.hidden(value)
        if isinstance(value, Mapping):
            return {name: self.hidden_in(part) for name, part in value.items()}
        return [self.hidden_in(part) for part in value] if isinstance(value, list) else value

    def outside(self, error: Error) -> Error:
        """The same error, to be told to somebody elsewhere."""
        told = copy.copy(error)
        told.problem, told.why, told.fix = map(self.hidden, (error.problem, error.why, error.fix))
        return told
