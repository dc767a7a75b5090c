"""How busy the disks were, over time and in all: of one run, and of arms set against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock import units
from penstock.lab import analysis
from penstock.lab.analysis import DiskTrack, Spread
from penstock.lab.records import Run
from penstock.lab.report import plots
from penstock.lab.report.document import Part, Plot, Section, Table

_NOTE = (
    "By the kernel's own counters. Busy is the share of the time in which the device had a request: "
    "100 % is the limit only of one that serves a single request at a time."
)


def sections(run: Run) -> list[Section]:
    """Nothing for a run whose machine was not metered, or where no device had anything to do."""
    uses = analysis.device_uses(run)
    if not uses:
        return []
    parts: list[Part] = []
    if tracks := analysis.disk_tracks(run):
        shares = analysis.spread(analysis.usage(run, "disk_busy_share"))
        parts.append(Plot("disk-busy", plots.busy_over_time({"shuffle disk": tracks}), f"{_told(shares)}.", height=220))
        text = f"The shuffle's disk in each second: {_moved(tracks)}."
        parts.append(Plot("disk-rates", plots.rates_over_time(tracks), text, height=220))
    shuffle = analysis.shuffle_disk(run)
    rows = [
        (
            f"{name}, shuffle" if name == shuffle else name,
            percent(use.busy_share),
            units.number(use.queue),
            units.data(use.read_bytes),
            units.data(use.written_bytes),
        )
        for name, use in uses.items()
    ]
    columns = ("device", "busy", "requests at once", "read", "written")
    parts.append(Table(columns, rows, numeric=frozenset({1, 2, 3, 4})))
    return [Section("Devices", f"Of one repetition, the median. {_NOTE}", parts)]


def compared(runs: Mapping[str, Run]) -> list[Section]:
    """The shuffle's media of each arm, by the arms' names; nothing where one's machine was not metered."""
    busy = {name: analysis.usage(run, "disk_busy_share") for name, run in runs.items()}
    if not all(busy.values()):
        return []
    rows = []
    for name, run in runs.items():
        shares = analysis.spread(busy[name])
        rows.append(
            (
                name,
                percent(shares.median),
                f"{percent(shares.low)}–{percent(shares.high)}" if shares.count > 1 else "",
                *(_median(run, f"disk_{key}", write) for key, write in _FIGURES),
                *(_scratch(run, place) for place in ("memory", "disk")),
            )
        )
    columns = (
        "arm",
        "disk busy",
        "range",
        "requests at once",
        "read",
        "written",
        "scratch in memory",
        "scratch on disk",
    )
    # Arms without a budget in memory do not say what they wrote to scratch.
    table = Table(columns, rows, numeric=frozenset(range(1, len(columns)))).filled()
    parts: list[Part] = []
    tracks = {name: analysis.disk_tracks(run) for name, run in runs.items()}
    if all(tracks.values()):
        text = "; ".join(f"{name} {percent(analysis.spread(shares).median)} busy" for name, shares in busy.items())
        parts.append(Plot("disk-busy", plots.busy_over_time(tracks), f"{text}.", height=260))
    return [Section("The shuffle's disk", _NOTE, [*parts, table], brief=True)]


_FIGURES = (("queue", units.number), ("read_bytes", units.data), ("written_bytes", units.data))


def percent(share: float) -> str:
    return f"{share * 100:.{0 if share >= 0.1 or not share else 1}f} %"


def _median(run: Run, key: str, write: plots.Write) -> str:
    values = analysis.usage(run, key)
    return write(analysis.spread(values).median) if values else ""


def _scratch(run: Run, place: str) -> str:
    value = analysis.summed(run, f"scratch_{place}_bytes")
    return "" if value is None else units.data(value)


def _told(shares: Spread) -> str:
    ranged = f", between {percent(shares.low)} and {percent(shares.high)}" if shares.count > 1 else ""
    return f"The shuffle's disk was busy {percent(shares.median)} of the time{ranged}"


def _moved(tracks: Sequence[DiskTrack]) -> str:
    most_read = max(max(track.read_rates) for track in tracks)
    most_written = max(max(track.written_rates) for track in tracks)
    return f"at most {units.rate(most_read)} read and {units.rate(most_written)} written"
