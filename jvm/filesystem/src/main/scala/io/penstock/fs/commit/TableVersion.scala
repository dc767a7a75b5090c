package io.penstock.fs.commit

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.S3AFileSystem

/** Which commits a table has seen, for jobs that replace what they have read of it. */
object TableVersion {

  /** Option of a write: it fails with a [[TableChanged]] where this is no longer the table's version. */
  val Expected = "fs.s3a.penstock.commit.expected.version"

  /**
   * The number of the latest commit by [[AtomicCommitProtocol]] to the table of this directory, 0 where there was none.
   * What is listed afterwards has that commit's files. Files that other programs add or delete do not change it.
   *
   * Throws an `IOException` where the store cannot be asked, or a commit that was left behind not be finished.
   */
  def of(table: Path, conf: Configuration): Long = {
    val fs = table.getFileSystem(conf).asInstanceOf[S3AFileSystem]
    val buckets = new Buckets(name => new S3ABucket(Buckets.fileSystem(table, name, conf)))
    new TableCommit(buckets, JobOutput.directory(fs, table), Parallel.of(conf), JobOutput.patience(conf)).version()
  }
}
