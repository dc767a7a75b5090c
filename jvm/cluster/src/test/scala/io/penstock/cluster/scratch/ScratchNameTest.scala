package io.penstock.cluster.scratch

import java.util.UUID

import org.apache.spark.storage._
import org.scalatest.funsuite.AnyFunSuite

class ScratchNameTest extends AnyFunSuite {

  private def kind(block: BlockId): Option[Kind] = ScratchName.parse(block.name).map(_.kind)

  test("Spark's own names of shuffle and spill files are known") {
    assert(kind(ShuffleDataBlockId(1, 22, 0)).contains(Kind.MapOutput))
    assert(kind(ShuffleIndexBlockId(1, 22, 0)).contains(Kind.MapIndex))
    assert(ScratchName.parse(ShuffleChecksumBlockId(1, 22, 0).name + ".ADLER32").map(_.kind).contains(Kind.MapIndex))
    for (module <- Seq("shuffle", "local"))
      assert(ScratchName.parse(s"temp_${module}_${UUID.randomUUID()}").map(_.kind).contains(Kind.Spill))
  }

  test("what an application keeps, and what is no shuffle's file, is no scratch") {
    for (block <- Seq(RDDBlockId(3, 4), BroadcastBlockId(5), StreamBlockId(1, 2), TaskResultBlockId(9)))
      assert(kind(block).isEmpty, block)
    assert(ScratchName.parse("shuffle_1_22_0").isEmpty)
    assert(ScratchName.parse("shuffleMerged_app_1_0_2.data").isEmpty)
  }

  test("a file on its way to its place is known under the name it will have") {
    val name = ShuffleDataBlockId(0, 7, 0).name
    val sibling = ScratchName.parse(s"$name.${UUID.randomUUID()}")
    assert(sibling == ScratchName.parse(name))
    assert(sibling.exists(!_.temporary))
    assert(ScratchName.parse(s"temp_local_${UUID.randomUUID()}").exists(_.temporary))
  }
}
