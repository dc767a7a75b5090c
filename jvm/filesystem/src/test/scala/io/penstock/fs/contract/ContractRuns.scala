package io.penstock.fs.contract

import java.nio.file.{Files, Path => FilePath}
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.junit.runner.JUnitCore
import org.junit.runner.notification.{Failure, RunListener}
import org.scalatest.{BeforeAndAfterAll, Suite}

import io.penstock.fs.read.PageStreamFactory
import io.penstock.fs.testing.{Store, Trees}
import io.penstock.fs.{CacheSettings, PenstockFileSystem}

/** What became of a contract's tests: names of those that failed, with the reason, and of those that were skipped. */
final private[contract] case class Outcome(ran: Int, failed: Map[String, String], skipped: Set[String])

/** Runs Hadoop's contract tests on the store of the tests, each time in a directory of its own. */
private[contract] trait ContractRuns extends BeforeAndAfterAll { this: Suite =>

  private val caches: FilePath = Files.createTempDirectory("penstock-contract-")

  override def afterAll(): Unit = Trees.delete(caches)

  private lazy val bucket = Store.newBucket()
  private val runs = new AtomicInteger

  /** This file system as users have it, but for pages small enough that the tests' files have several of them. */
  protected def penstock(writeThrough: Boolean): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    conf.set("fs.s3a.input.stream.type", "custom")
    conf.set("fs.s3a.input.stream.custom.factory", classOf[PageStreamFactory].getName)
    conf.setBoolean(CacheSettings.WriteThrough, writeThrough)
    conf.set(CacheSettings.PageSize, "4K")
    conf.set(CacheSettings.MemoryDirectory, caches.resolve(s"through-$writeThrough").toString)
    conf.set(CacheSettings.MemorySize, "100M")
    conf.set(CacheSettings.DiskSize, "0")
    conf
  }

  protected def run(contract: Class[_], conf: Configuration): Outcome = {
    val own = if (contract == classOf[RootDirectoryContract]) Store.newBucket() else bucket
    Using.resource(Store.fileSystem(own, conf)) { files =>
      ContractStore.use(files, s"/${contract.getSimpleName}-${runs.incrementAndGet()}")
      outcome(contract)
    }
  }

  private def outcome(contract: Class[_]): Outcome = {
    val skipped = mutable.Set.empty[String]
    val junit = new JUnitCore
    junit.addListener(new RunListener {
      override def testAssumptionFailure(failure: Failure): Unit = skipped += failure.getDescription.getMethodName
    })
    val result = junit.run(contract)
    val failed = result.getFailures.asScala.map(each => each.getDescription.getMethodName -> each.getTrimmedTrace)
    Outcome(result.getRunCount, failed.toMap, skipped.toSet)
  }
}
