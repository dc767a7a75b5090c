package io.penstock.fs.cache

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatest.prop.TableDrivenPropertyChecks._

import io.penstock.fs.CacheSettings

class TierSizeSuite extends AnyFunSuite with Matchers {

  test("sizes are bytes, with a unit, or a percentage") {
    forAll(
      Table(
        "text" -> "size",
        "0" -> TierSize.Bytes(0),
        "512" -> TierSize.Bytes(512),
        " 4k" -> TierSize.Bytes(4096),
        "512M" -> TierSize.Bytes(512L << 20),
        "20gb" -> TierSize.Bytes(20L << 30),
        "2T" -> TierSize.Bytes(2L << 40),
        "12.5 %" -> TierSize.Percent(12.5)
      )
    )((text, size) => TierSize.parse(text) shouldBe Right(size))
    for (text <- Seq("", "-1", "lots", "1.5G", "101%", "5P", "9" * 40)) TierSize.parse(text) shouldBe a[Left[_, _]]
  }

  test("a percentage is of the whole, and never more than half of what there is") {
    TierSize.Percent(10).budget(total = 1000, available = 900) shouldBe 100
    TierSize.Percent(10).budget(total = 1000, available = 60) shouldBe 30
    TierSize.Bytes(500).budget(total = 1000, available = 60) shouldBe 500
  }

  private def conf(settings: (String, String)*): Configuration = {
    val conf = new Configuration(false)
    settings.foreach { case (name, value) => conf.set(name, value) }
    conf
  }

  test("both tiers are on unless told otherwise, each in a directory of the user's") {
    val Right(Vector(memory, disk)) = TierSettings.from(conf()): @unchecked
    (memory.kind, disk.kind) shouldBe ((TierKind.Memory, TierKind.Disk))
    for (tier <- Seq(memory, disk))
      tier.directory.toString should include(s"penstock-${System.getProperty("user.name")}")
    TierSettings.from(conf(CacheSettings.MemorySize -> "0")).map(_.map(_.kind)) shouldBe Right(Vector(TierKind.Disk))
  }

  test("a disk gives way to a store that is as near unless told otherwise, and memory never does") {
    def givesWay(settings: (String, String)*) = TierSettings.from(conf(settings: _*)).map(_.map(_.givesWay))
    givesWay() shouldBe Right(Vector(false, true))
    givesWay(CacheSettings.Admission -> "always") shouldBe Right(Vector(false, false))
  }

  test("a setting that makes no sense leaves reading without the cache, and says which one it is") {
    for (
      (name, value) <- Seq(
        CacheSettings.DiskSize -> "much",
        CacheSettings.PageSize -> "100",
        CacheSettings.PageSize -> "10%",
        CacheSettings.Admission -> "sometimes"
      )
    ) {
      TierSettings.from(conf(name -> value)).left.map(_.takeWhile(_ != ':')) shouldBe Left(name)
      PageCaches.of(conf(name -> value)) shouldBe None
    }
    PageCaches.of(conf(CacheSettings.Enabled -> "false")) shouldBe None
    PageCaches.of(conf(CacheSettings.MemorySize -> "0", CacheSettings.DiskSize -> "0%")) shouldBe None
  }
}
