package io.penstock.fs.contract

import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.Store

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
