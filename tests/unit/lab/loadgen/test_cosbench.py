"""COSBench workload files: their meaning here, and errors with their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidInput, NotFound
from penstock.lab.loadgen import cosbench
from penstock.lab.loadgen.workload import Division, Limit, Numbers, OperationKind, Sizes, parse_sizes

SAMPLE = """<?xml version="1.0" encoding="UTF-8"?>
<workload name="sample" description="reads and writes">
  <storage type="s3" config="accesskey=AKIAEXAMPLE;secretkey=verysecret;endpoint=http://192.0.2.1" />
  <auth type="none" />
  <workflow>
    <workstage name="init">
      <work type="init" workers="1" config="cprefix=b;containers=r(1,2)" />
    </workstage>
    <workstage name="prepare" closuredelay="3">
      <work type="prepare" workers="4" config="cprefix=b;containers=r(1,2);objects=r(1,10);sizes=c(64)KB" />
    </workstage>
    <workstage name="main">
      <work name="mixed" workers="8" runtime="30" rampup="5" rampdown="2" driver="driver1" interval="5">
        <operation type="read" ratio="70" config="cprefix=b;containers=u(1,2);objects=u(1,10);hashCheck=true" />
        <operation type="write" ratio="20" config="cprefix=b;containers=u(1,2);objects=u(11,20);sizes=c(64)KB" />
        <operation type="list" ratio="10" config="cprefix=b;containers=u(1,2)" />
      </work>
      <work name="other" workers="2" totalOps="100" division="object" config="cprefix=b;containers=c(1)">
        <operation type="delete" ratio="100" config="objects=s(1,10)" />
        <operation type="read" ratio="0" config="objects=s(1,10)" />
      </work>
    </workstage>
    <workstage name="cleanup">
      <work type="cleanup" workers="2" config="cprefix=b;containers=r(1,2);objects=r(1,20)" />
    </workstage>
    <workstage name="dispose">
      <work type="dispose" workers="1" config="cprefix=b;containers=r(1,2)" />
    </workstage>
  </workflow>
</workload>
"""


def parse(text: str) -> cosbench.CosbenchFile:
    return cosbench.parse(text.encode(), "load.xml")


def changed(old: str, new: str) -> str:
    assert old in SAMPLE
    return SAMPLE.replace(old, new, 1)


def test_the_stages_that_load_the_store_are_taken_over() -> None:
    workload = parse(SAMPLE).workload
    assert [(s.name, s.measured, s.pause_seconds) for s in workload.stages] == [
        ("prepare", False, 3.0),
        ("main", True, 0.0),
        ("cleanup", False, 0.0),
    ]
    prepare, main, cleanup = workload.stages
    assert prepare.works[0].limit.each_once
    assert prepare.works[0].operations[0].kind is OperationKind.PUT
    assert cleanup.works[0].operations[0].kind is OperationKind.DELETE
    mixed, other = main.works
    assert (mixed.workers, mixed.rampup_seconds, mixed.rampdown_seconds) == (8, 5.0, 2.0)
    assert mixed.limit == Limit(seconds=30.0)
    assert [(op.kind, op.ratio) for op in mixed.operations] == [
        (OperationKind.GET, 70),
        (OperationKind.PUT, 20),
        (OperationKind.LIST, 10),
    ]
    assert other.limit == Limit(operations=100)
    assert [op.kind for op in other.operations] == [OperationKind.DELETE]
    assert other.operations[0].targets.division is Division.OBJECT
    assert other.operations[0].targets.containers == Numbers(1, 1, in_turn=True)
    assert mixed.operations[0].targets.name(1, 7) == "b1/myobjects7"


def test_a_reader_knows_the_size_of_what_is_written() -> None:
    read = parse(SAMPLE).workload.stages[1].works[0].operations[0]
    assert read.sizes == parse_sizes("c(64)KB")


def test_a_reader_of_objects_with_two_kinds_of_sizes_asks_the_store() -> None:
    read = parse(changed("objects=u(11,20);sizes=c(64)KB", "objects=u(11,20);sizes=c(1)MB"))
    assert read.workload.stages[1].works[0].operations[0].sizes is None


def test_everything_that_is_not_looked_at_is_listed_with_its_line_and_no_value() -> None:
    ignored = parse(SAMPLE).ignored
    assert [text.split(" is ignored")[0] for text in ignored] == [
        "line 3: storage",
        "line 4: auth",
        "line 7: work of type init",
        "line 13: driver",
        "line 13: interval",
        "line 14: hashCheck",
        "line 27: work of type dispose",
    ]
    assert not any("secret" in text or "AKIA" in text or "192.0.2.1" in text for text in ignored)


def test_settings_are_inherited_and_the_inner_one_wins() -> None:
    text = changed("<workflow>", '<workflow config="oprefix=x;objects=r(1,5)">')
    deleting = parse(text).workload.stages[1].works[1].operations[0]
    assert deleting.targets.object_prefix == "x"
    assert deleting.targets.objects == Numbers(1, 10, in_turn=True)


def test_a_stage_that_only_waits_is_kept() -> None:
    waiting = '<workstage name="rest" closuredelay="7"><work type="delay"><operation type="delay"/></work></workstage>'
    stages = parse(changed('<workstage name="main">', f'{waiting}<workstage name="main">')).workload.stages
    assert [(stage.name, stage.pause_seconds, stage.works) for stage in stages[1:2]] == [("rest", 7.0, ())]


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("<auth", "<auth <", 4, "well-formed"),
        ("</workflow>", "", 30, "well-formed"),
        ('type="read" ratio="70"', 'type="filewrite" ratio="70"', 14, "filewrite"),
        ('ratio="70"', 'ratio="60"', 13, "add up to 90"),
        ('ratio="70"', 'ratio="seventy"', 14, "ratio"),
        ('workers="8"', 'workers="0"', 13, "workers"),
        ('workers="8"', 'workers="-8"', 13, "workers"),
        ('workers="8"', 'workers="99999"', 13, "workers"),
        (' runtime="30"', "", 13, "this work has no end"),
        ("u(1,10);hashCheck", "z(1,10);hashCheck", 14, "z(1,10)"),
        ("u(1,10);hashCheck", "u(10,1);hashCheck", 14, "ascending range from 1"),
        ("r(1,10);sizes=c(64)KB", "r(1,10)", 10, "sizes"),
        ("sizes=c(64)KB", "sizes=c(64)", 10, "unit"),
        ("hashCheck=true", "hashChek=true", 14, "hashChek"),
        ("hashCheck=true", "content=zero", 14, "content"),
        ("hashCheck=true", "oops", 14, "NAME=VALUE"),
        ('name="main"', 'name="main" trigger="drop-caches.sh"', 12, "trigger"),
        ("<workstage", "<stage", 6, "stage"),
        ('type="prepare"', 'type="prepair"', 10, "prepair"),
        ('division="object"', 'division="half"', 18, "half"),
        ("<workload ", "<benchmark ", 1, ""),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, line: int, problem: str) -> None:
    text = changed(old, new)
    if old == "<workstage":
        text = text.replace("</workstage>", "</stage>", 1)
    if old == "<workload ":
        text, line = text.replace("</workload>", "</benchmark>"), 2
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert f"load.xml, line {line}:" in caught.value.problem
    assert problem in str(caught.value)


def test_values_of_settings_that_are_refused_are_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(changed("hashCheck=true", "secretkey=verysecret"))
    assert "verysecret" not in str(caught.value)


def test_entities_are_refused_before_they_expand() -> None:
    # Expanded, it would be ten trillion characters.
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12)
    )
    with pytest.raises(InvalidInput, match="line 2: a document type declaration is not allowed"):
        parse(bomb + ']>\n<workload name="&m;"/>')


def test_a_file_on_this_machine_is_not_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    with pytest.raises(InvalidInput, match="document type"):
        parse(f'<!DOCTYPE w [<!ENTITY a SYSTEM "{secret.as_uri()}">]><workload name="&a;"/>')


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff", b"<workload>" * 20_000, b"<w>" + b" " * (1 << 20), b"name: yaml"],
    ids=["empty", "binary", "deep", "large", "YAML"],
)
def test_what_is_no_workload_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput):
        cosbench.parse(content, "load.xml")


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        cosbench.read(tmp_path / "none.xml")


def test_the_space_that_objects_will_take_is_known_beforehand() -> None:
    assert parse(SAMPLE).workload.written_bytes == 2 * 20 * 64_000
    assert Sizes.constant(5).mean == 5
