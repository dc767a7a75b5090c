package io.penstock.fs.commit

import org.scalatest.funsuite.AnyFunSuite

class ReplacingTest extends AnyFunSuite {

  private val table = Location("lake", "sales/")

  private def replaced(keys: String*): Seq[String] =
    Replacing.replaced(keys.iterator.map(Location("lake", _)), table, uploads = Seq.empty, marker = None).map(_.key)

  test("an overwrite deletes data, and neither the table's journal nor its skipping index") {
    val data = Seq("sales/day=1/part-0.parquet", "sales/_SUCCESS", "sales/my_skipindex/part-0.parquet")
    val kept = Seq("sales/", "sales/_penstock_commit/000000000001", "sales/_skipindex/manifest.json")
    assert(replaced(data ++ kept: _*) == data)
  }
}
