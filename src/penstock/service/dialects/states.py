"""The engine's states in IBM's words, and IBM's words as the engine's states. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.policy.lifecycle import INFRASTRUCTURE
from penstock.errors import InvalidInput
from penstock.model import Reason, State

OPS_TERMINATED = "ops_terminated"
"""IBM's word for what its operators ended; here an operator's stop is a stop like any other."""

_WORDS = {
    State.ACCEPTED: "accepted",
    State.WAITING: "accepted",
    State.STARTING: "accepted",
    State.RUNNING: "running",
    # It holds its cluster until it has ended.
    State.STOPPING: "running",
    State.FINISHED: "finished",
    State.FAILED: "failed",
    State.STOPPED: "stopped",
    State.AUTO_TERMINATED: "auto_terminated",
}
WORDS = (*dict.fromkeys(_WORDS.values()), OPS_TERMINATED)


def word(state: State) -> str:
    return _WORDS[state]


def asked(words: Iterable[str]) -> list[State]:
    """The states meant by IBM's words, each of which may be several with commas between them; `InvalidInput`."""
    wanted = {part.strip().lower() for text in words for part in text.split(",") if part.strip()}
    if unknown := wanted - set(WORDS):
        raise InvalidInput(
            f"{len(unknown)} of the states asked for {'is' if len(unknown) == 1 else 'are'} none",
            why=f"there are {', '.join(WORDS)}",
            fix="?state=running,finished",
        )
    return [state for state, name in _WORDS.items() if name in wanted]


def details(state: State, reason: Reason | None) -> list[dict[str, str]]:
    """`state_details`: why it is in this state, and whose matter that is."""
    if reason is None:
        return []
    blame = "server_error" if reason.code in INFRASTRUCTURE else "user_error"
    text = f"{reason.message}; {reason.fix}" if reason.fix else reason.message
    return [{"type": blame if state is State.FAILED else "info", "code": reason.code, "message": text}]
