package io.penstock.fs.contract

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.contract.{AbstractFSContract, ContractOptions}
import org.apache.hadoop.fs.{FileSystem, Path}

/** What Hadoop's contract tests are told of the file system under test: that which [[ContractStore.use]] named last. */
class ContractStore(conf: Configuration) extends AbstractFSContract(conf) {

  for ((option, value) <- ContractStore.Options) getConf.set(getConfKey(option), value)

  override def getScheme: String = "s3a"

  override def getTestPath: Path = new Path(ContractStore.used.directory)

  override def getTestFileSystem: FileSystem = ContractStore.used.files
}

private[contract] object ContractStore {

  final private[contract] case class Use(files: FileSystem, directory: String)

  @volatile private var last: Use = _

  /** JUnit makes the tests by itself, in threads of its own: what they are to use is told to all of them at once. */
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
