package io.penstock.fs.contract

import java.io.FileNotFoundException
import java.nio.file.{Files, Path => FilePath}
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.contract._
import org.apache.hadoop.fs.{FileSystem, Path}
import org.junit.Assert.{assertEquals, assertFalse}
import org.junit.Assume
import org.junit.runner.JUnitCore
import org.junit.runner.notification.{Failure, RunListener}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{BeforeAndAfterAll, Suite}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.read.PageStreamFactory
import io.penstock.fs.testing.{Store, Trees}

/**
 * Hadoop's contract tests, run against [[ContractStore]]. Those that S3A does not keep are redefined here as hadoop-aws
 * redefines them for its own runs, each with the reason.
 */
trait OnContractStore extends AbstractFSContractTestBase {

  override protected def createConfiguration(): Configuration = new Configuration(ContractStore.used.files.getConf)

  override protected def createContract(conf: Configuration): AbstractFSContract = new ContractStore(conf)

  protected def isNotOfS3A(reason: String): Unit = Assume.assumeTrue(reason, false)
}

class OpenContract extends AbstractContractOpenTest with OnContractStore {
  override protected def areZeroByteFilesEncrypted(): Boolean = true
}

class SeekContract extends AbstractContractSeekTest with OnContractStore

class UnbufferContract extends AbstractContractUnbufferTest with OnContractStore

class EtagContract extends AbstractContractEtagTest with OnContractStore

class StreamIOStatisticsContract extends AbstractContractStreamIOStatisticsTest with OnContractStore

/** JUnit makes one for each kind of buffer. */
class VectoredReadContract(buffers: String) extends AbstractContractVectoredReadTest(buffers) with OnContractStore

class CreateContract extends AbstractContractCreateTest with OnContractStore

class DeleteContract extends AbstractContractDeleteTest with OnContractStore

class MkdirContract extends AbstractContractMkdirTest with OnContractStore

class RenameContract extends AbstractContractRenameTest with OnContractStore {

  /** S3A renames into a directory only if that is empty. */
  override def testRenameDirIntoExistingDir(): Unit = {
    val (source, destination) = (path("source"), path("dest"))
    for (directory <- Seq(source, destination))
      ContractTestUtils.touch(getFileSystem, new Path(directory, "file"))
    assertFalse(getFileSystem.rename(source, destination))
  }
}

class GetFileStatusContract extends AbstractContractGetFileStatusTest with OnContractStore

class RootDirectoryContract extends AbstractContractRootDirectoryTest with OnContractStore

class ContentSummaryContract extends AbstractContractContentSummaryTest with OnContractStore

class MultipartUploaderContract extends AbstractContractMultipartUploaderTest with OnContractStore {

  /** The least a store takes, in bytes. */
  override protected def partSizeInBytes: Int = 5 << 20

  override protected def getTestPayloadCount: Int = 2

  override protected def finalizeConsumesUploadIdImmediately: Boolean = false

  override protected def supportsConcurrentUploadsToSamePath: Boolean = true

  override def testDirectoryInTheWay(): Unit = isNotOfS3A("a store has no directories that could be in the way")

  override def testMultipartUploadAbort(): Unit =
    try super.testMultipartUploadAbort()
    catch { case _: FileNotFoundException => () } // Stores may have forgotten what was aborted.
}

class BulkDeleteContract extends AbstractContractBulkDeleteTest with OnContractStore {

  override protected def getExpectedPageSize: Int = 250

  override def validatePageSize(): Unit = assertEquals(getExpectedPageSize, pageSize)

  override def testBulkDeleteParentDirectoryWithDirectories(): Unit =
    isNotOfS3A("a bulk delete deletes keys, and a directory with files has none")

  override def testBulkDeleteParentDirectoryWithFiles(): Unit =
    isNotOfS3A("a bulk delete deletes keys, and a directory with files has none")
}

/** The outcomes of a contract's tests: names of those that failed, with the reason, and of those that were skipped. */
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

/** The file system under test, for Hadoop's contract tests: the one that [[ContractStore.use]] named last. */
class ContractStore(conf: Configuration) extends AbstractFSContract(conf) {

  for ((option, value) <- ContractStore.Options) getConf.set(getConfKey(option), value)

  override def getScheme: String = "s3a"

  override def getTestPath: Path = new Path(ContractStore.used.directory)

  override def getTestFileSystem: FileSystem = ContractStore.used.files
}

private[contract] object ContractStore {

  final private[contract] case class Use(files: FileSystem, directory: String)

  @volatile private var last: Use = _

  /** JUnit makes the tests by itself, in threads of its own: their file system is named for all of them at once. */
  def use(files: FileSystem, directory: String): Unit = last = Use(files, directory)

  def used: Use = last

  /** The properties of S3A that hadoop-aws declares for its own runs of these tests. */
  private val Options = Map(
    ContractOptions.TEST_ROOT_TESTS_ENABLED -> "true",
    ContractOptions.TEST_RANDOM_SEEK_COUNT -> "10",
    ContractOptions.IS_BLOBSTORE -> "true",
    ContractOptions.CREATE_VISIBILITY_DELAYED -> "true",
    ContractOptions.IS_CASE_SENSITIVE -> "true",
    ContractOptions.RENAME_RETURNS_FALSE_IF_SOURCE_MISSING -> "false",
    ContractOptions.RENAME_REMOVE_DEST_IF_EMPTY_DIR -> "true",
    ContractOptions.RENAME_OVERWRITES_DEST -> "false",
    ContractOptions.RENAME_RETURNS_FALSE_IF_DEST_EXISTS -> "false",
    ContractOptions.RENAME_CREATES_DEST_DIRS -> "true",
    ContractOptions.SUPPORTS_UNBUFFER -> "true",
    ContractOptions.SUPPORTS_APPEND -> "false",
    ContractOptions.SUPPORTS_ATOMIC_DIRECTORY_DELETE -> "false",
    ContractOptions.SUPPORTS_ATOMIC_RENAME -> "false",
    ContractOptions.SUPPORTS_BLOCK_LOCALITY -> "false",
    ContractOptions.SUPPORTS_CONCAT -> "false",
    ContractOptions.SUPPORTS_GETFILESTATUS -> "true",
    ContractOptions.SUPPORTS_SEEK -> "true",
    ContractOptions.SUPPORTS_SEEK_ON_CLOSED_FILE -> "true",
    ContractOptions.REJECTS_SEEK_PAST_EOF -> "true",
    ContractOptions.SUPPORTS_STRICT_EXCEPTIONS -> "true",
    ContractOptions.SUPPORTS_UNIX_PERMISSIONS -> "false",
    ContractOptions.VECTOR_IO_EARLY_EOF_CHECK -> "true"
  )
}

/**
 * Hadoop's own tests of input streams, all of them, with a cache that has nothing yet and one that has what was
 * written.
 */
class ReadContractTest extends AnyFunSuite with ContractRuns {

  private val contracts = Seq(
    classOf[OpenContract],
    classOf[SeekContract],
    classOf[VectoredReadContract],
    classOf[UnbufferContract],
    classOf[StreamIOStatisticsContract]
  )

  for {
    (cache, writeThrough) <- Seq("a cold cache" -> false, "a warm cache" -> true)
    contract <- contracts
  } test(s"${contract.getSimpleName}, $cache") {
    val outcome = run(contract, penstock(writeThrough))
    assert(outcome.failed.isEmpty, outcome.failed.values.mkString("\n"))
    assert(outcome.ran > 0 && outcome.skipped.isEmpty)
  }
}

/**
 * Hadoop's own tests of all that is not reading. How much of it S3A itself keeps depends on the store: some have
 * directories of their own, which outlive the keys in them. So the claim is that each test that S3A passes passes here.
 */
class StoreContractTest extends AnyFunSuite with ContractRuns {

  private val contracts = Seq(
    classOf[CreateContract],
    classOf[DeleteContract],
    classOf[MkdirContract],
    classOf[RenameContract],
    classOf[GetFileStatusContract],
    classOf[RootDirectoryContract],
    classOf[ContentSummaryContract],
    classOf[MultipartUploaderContract],
    classOf[BulkDeleteContract],
    classOf[EtagContract]
  )

  for (contract <- contracts) test(contract.getSimpleName) {
    assume(Store.isOutside, "the store within this JVM is a file system, whose directories are in the way of S3A")
    val s3a = run(contract, Store.conf())
    val ours = run(contract, penstock(writeThrough = true))
    assert(ours.ran == s3a.ran && s3a.ran > s3a.skipped.size + s3a.failed.size)
    assert(ours.skipped == s3a.skipped)
    val worse = ours.failed -- s3a.failed.keys
    assert(worse.isEmpty, worse.values.mkString("\n"))
  }
}
