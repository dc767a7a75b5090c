package io.penstock.fs.contract

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.contract._
import org.junit.Assert.{assertEquals, assertFalse}
import org.junit.Assume

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
