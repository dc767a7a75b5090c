"""The null store responds like a store with all objects of the workload."""

from __future__ import annotations

from penstock.lab.loadgen import cosbench
from penstock.lab.loadgen.null_store import NullStoreConfig
from penstock.lab.loadgen.workload import OperationKind

TWO_SETS = """<workload name="w"><workflow>
  <workstage name="p">
    <work type="prepare" workers="1" config="cprefix=b;containers=r(1,2);objects=r(1,9);sizes=c(1)KB"/>
    <work type="prepare" workers="1" config="cprefix=b2;containers=r(1,2);objects=r(1,9);sizes=c(2)KB"/>
    <work type="prepare" workers="1" config="cprefix=b;oprefix=x(;containers=r(1,2);objects=r(1,9);sizes=c(3)KB"/>
  </workstage>
  <workstage name="main"><work workers="1" runtime="1">
    <operation type="read" ratio="90" config="cprefix=b2;containers=r(1,2);objects=r(1,9)"/>
    <operation type="list" ratio="10" config="cprefix=b;containers=r(1,2)"/>
  </work></workstage></workflow></workload>"""


def test_objects_have_the_sizes_they_were_written_with_also_where_names_begin_alike() -> None:
    workload = cosbench.parse(TWO_SETS.encode(), "w.xml").workload
    canned = NullStoreConfig.of(workload, seed=1, bucket="bucket", prefix="p")
    assert canned.size_of("b1/myobjects3") == 1000
    assert canned.size_of("b21/myobjects3") == 2000
    assert canned.size_of("b1/x(3") == 3000
    read = workload.stages[-1].works[0].operations[0]
    assert read.kind is OperationKind.GET
    assert read.sizes is not None
    assert read.sizes.of(1, "b21/myobjects3") == canned.size_of("b21/myobjects3")
