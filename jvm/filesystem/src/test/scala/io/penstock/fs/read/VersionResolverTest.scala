package io.penstock.fs.read

import java.io.FileNotFoundException
import java.net.URI
import java.nio.ByteBuffer
import java.nio.file.AccessDeniedException

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.{RemoteFileChangedException, S3AFileSystem}
import org.apache.hadoop.fs.{FSDataInputStream, FileRange, FileStatus, FileSystem, Path}
import org.apache.hadoop.security.alias.CredentialProviderFactory
import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsCredentialsProvider}

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.read.VersionPolicy.{Claimed, Confirm, Given, Learn, Seen, decide}

/** Keys that S3A gets from a program. */
private[read] class CodedCredentials(bucket: URI, conf: Configuration) extends AwsCredentialsProvider {
  require(bucket.getScheme == "s3a")

  override def resolveCredentials(): AwsCredentials =
    AwsBasicCredentials.create(conf.get("fs.s3a.access.key"), conf.get("fs.s3a.secret.key"))
}

/** An object that changes never yields bytes of another version than its reader may see. */
class VersionResolverTest extends ReadsSuite {

  private val Strict = CacheSettings.Strict -> "true"

  private def warmed(): (FileStatus, Array[Byte]) = {
    val fs = fileSystem()
    val (path, data) = nextAged()
    val status = fs.getFileStatus(path)
    assert(readAll(opened(fs, status)) sameElements data)
    gateway.clear()
    (status, data)
  }

  /** Other bytes, as many. */
  private def overwrite(status: FileStatus): Array[Byte] = {
    val data = ReadsSuite.bytes(status.getLen.toInt, System.nanoTime)
    bucket.put(status.getPath.getName, data)
    data
  }

  test(
    "overwritten at once, at the same length, perhaps in the same second: who lists after that reads the new bytes"
  ) {
    val fs = fileSystem()
    for (_ <- 1 to 5) {
      val (path, data) = put(3 * PageSize)
      assert(readAll(opened(fs, fs.getFileStatus(path))) sameElements data)
      val newer = overwrite(fs.getFileStatus(path))
      assert(readAll(opened(fs, fs.getFileStatus(path))) sameElements newer)
    }
  }

  test("deleted and made again: who lists after that reads the new bytes, who knows the old ones' tag learns it") {
    val fs = fileSystem()
    val (path, data) = put(3 * PageSize)
    val old = fs.getFileStatus(path)
    assert(readAll(opened(fs, old)) sameElements data)
    bucket.delete(path.getName)
    intercept[FileNotFoundException](fs.open(path))
    val newer = overwrite(old)
    assert(readAll(opened(fs, fs.getFileStatus(path))) sameElements newer)
    assert(readAll(fs.open(path)) sameElements newer)
  }

  test("an old status reads the old version from the cache, without a request, while that is believed to be there") {
    val (status, data) = warmed()
    overwrite(status)
    assert(readAll(opened(fileSystem(), status)) sameElements data)
    assert(gateway.requests.isEmpty)
  }

  private val NoLonger = CacheSettings.MaxStaleness -> "0s"

  test("an old status finds out after a while that its object was overwritten, and reads the present version") {
    val (status, _) = warmed()
    val newer = overwrite(status)
    Thread.sleep(5)
    assert(readAll(opened(fileSystem(NoLonger), status)) sameElements newer)
    assert(confirmations == 1)
  }

  test("an old status finds out after a while that its object is gone, however many of its pages are here") {
    val (status, _) = warmed()
    bucket.delete(status.getPath.getName)
    Thread.sleep(5)
    intercept[FileNotFoundException](readAll(opened(fileSystem(NoLonger), status)))
  }

  test("pages that one has read with his credentials are not given to another, who has to ask the store") {
    val (status, data) = warmed()
    assert(readAll(opened(fileSystem(CacheSettings.Scope -> "another's"), status)) sameElements data)
    assert(pagesFetched.map(_.size).sum == AgedPages)
    gateway.clear()
    for (scope <- Seq(Seq.empty, Seq(CacheSettings.Scope -> "another's")))
      assert(readAll(opened(fileSystem(scope: _*), status)) sameElements data)
    assert(gateway.requests.isEmpty)
  }

  test("pages are given by the key that Hadoop's credential providers have for the bucket, and not by another") {
    val (status, data) = warmed()
    val (key, secret) = (conf().get("fs.s3a.access.key"), conf().get("fs.s3a.secret.key"))
    val ofBucket = s"fs.s3a.bucket.${bucket.name}"
    val (_, alicesFile) = keystore(s"$ofBucket.access.key" -> key, s"$ofBucket.secret.key" -> secret)
    val alices = s"$ofBucket.security.credential.provider.path" -> alicesFile
    val bobs = keystore("fs.s3a.access.key" -> "bob", "fs.s3a.secret.key" -> "another")
    assert(readAll(opened(fileSystem(alices, "fs.s3a.access.key" -> "another"), status)) sameElements data)
    assert(gateway.requests.isEmpty)
    intercept[AccessDeniedException](readAll(opened(fileSystem(bobs), status)))
  }

  private def keystore(secrets: (String, String)*): (String, String) = {
    val setting = CredentialProviderFactory.CREDENTIAL_PROVIDER_PATH
    val address = s"localjceks://file${tiers.resolve(s"keys-${secrets.hashCode}")}"
    val conf = new Configuration(false)
    conf.set(setting, address)
    val provider = CredentialProviderFactory.getProviders(conf).get(0)
    for ((name, secret) <- secrets) provider.createCredentialEntry(name, secret.toCharArray): Unit
    provider.flush()
    setting -> address
  }

  test("where only a program knows whose the credentials are, a file system finds its own pages and no other's") {
    val coded = "fs.s3a.aws.credentials.provider" -> classOf[CodedCredentials].getName
    for (impl <- Seq(classOf[S3AFileSystem], classOf[PenstockFileSystem])) {
      val (status, data) = warmed()
      for (fs <- Seq.fill(2)(fileSystem(coded, "fs.s3a.impl" -> impl.getName))) {
        assert(readAll(opened(fs, status)) sameElements data)
        assert(pagesFetched.map(_.size).sum == AgedPages)
        gateway.clear()
        assert(readAll(opened(fs, status)) sameElements data)
        assert(gateway.requests.isEmpty)
      }
    }
  }

  test("what the store has confirmed is believed again: one request for a byte in so long") {
    val (status, data) = warmed()
    Thread.sleep(5)
    assert(readAll(opened(fileSystem(NoLonger), status)) sameElements data)
    val fs = fileSystem()
    assert(readAll(opened(fs, status)) sameElements data)
    assert(gateway.requests.size == 1 && confirmations == 1)
  }

  private val Kinds = Seq(classOf[S3AFileSystem], classOf[PenstockFileSystem]).map("fs.s3a.impl" -> _.getName)

  private def tagged(fs: FileSystem, status: FileStatus): FSDataInputStream =
    fs.openFile(status.getPath).withFileStatus(status).build().get()

  private val ways = Seq[(String, FSDataInputStream => Any)](
    "reading" -> (_.read()),
    "at a position" -> (_.readFully(PageSize.toLong, new Array[Byte](10))),
    "vectored" -> { in =>
      val range = FileRange.createFileRange(PageSize.toLong, 10)
      in.readVectored(java.util.List.of(range), ByteBuffer.allocate(_))
      range.getData.get()
    }
  )

  test("an old status with a tag is refused after a while, however many pages of its version are here") {
    val old = Seq.fill(2)(warmed()._1)
    val (path, data) = put(PageSize)
    val small = fileSystem().getFileStatus(path)
    assert(readAll(opened(fileSystem(), small)) sameElements data)
    (old :+ small).foreach(overwrite)
    Thread.sleep(5)
    for (kind <- Kinds; status <- old) {
      val fs = fileSystem(kind, NoLonger)
      for ((way, read) <- ways) {
        val in = tagged(fs, status)
        withClue(s"$way: ")(intercept[RemoteFileChangedException](read(in)))
        in.close()
      }
      intercept[RemoteFileChangedException](readAll(tagged(fs, small)))
    }
  }

  test("an old status with a tag finds out after a while that its object is gone") {
    val (status, _) = warmed()
    bucket.delete(status.getPath.getName)
    Thread.sleep(5)
    for (kind <- Kinds) intercept[FileNotFoundException](readAll(tagged(fileSystem(kind, NoLonger), status)))
  }

  test("a status with a tag costs a request for a byte in so long, and none where a response has confirmed it") {
    val (path, data) = nextAged()
    val fs = fileSystem()
    val status = fs.getFileStatus(path)
    for (_ <- 1 to 2) assert(readAll(tagged(fs, status)) sameElements data)
    assert(pagesFetched.map(_.size).sum == AgedPages && confirmations == 0)
    gateway.clear()
    Thread.sleep(5)
    assert(readAll(tagged(fileSystem(NoLonger), status)) sameElements data)
    for (_ <- 1 to 2) assert(readAll(tagged(fs, status)) sameElements data)
    assert(gateway.requests.size == 1 && confirmations == 1)
  }

  test("a status that Penstock's file system has just asked for needs no confirmation, one of unknown age needs it") {
    val data = ReadsSuite.bytes(AgedPages * PageSize, 1)
    val fs = fileSystem(Kinds(1))
    def written(key: String): Path = {
      val path = bucket.path(key)
      Using.resource(fs.create(path))(_.write(data))
      gateway.clear()
      path
    }
    val ways = Seq[Path => FSDataInputStream](
      fs.open,
      fs.openFile(_).build().get(),
      path => tagged(fs, fs.getFileStatus(path)),
      path => tagged(fs, fs.listStatus(path).head)
    )
    for ((open, n) <- ways.zipWithIndex) {
      assert(readAll(open(written(s"written-$n"))) sameElements data)
      assert(ranges.isEmpty, n)
    }
    val listed = fs.listFiles(written("written"), false).next()
    assert(readAll(tagged(fs, listed)) sameElements data)
    assert(ranges.size == 1 && confirmations == 1)
  }

  test("strict: an old status without a tag reads the present version") {
    val (status, _) = warmed()
    val newer = overwrite(status)
    val fs = fileSystem(Strict)
    assert(readAll(opened(fs, status)) sameElements newer)
    assert(confirmations == 1)
  }

  test("strict: an old status with a tag is refused, a present one costs one request") {
    val (status, data) = warmed()
    val fs = fileSystem(Strict)
    assert(readAll(fs.openFile(status.getPath).withFileStatus(status).build().get()) sameElements data)
    assert(gateway.requests.size == 1 && confirmations == 1)
    overwrite(status)
    val in = fs.openFile(status.getPath).withFileStatus(status).build().get()
    intercept[RemoteFileChangedException](in.read())
    in.close()
  }

  test("changed while a stream is open: what is there is still the old version, what is not is refused") {
    val fs = fileSystem()
    val (path, data) = put(12 * PageSize)
    val in = fs.openFile(path).opt("fs.option.openfile.read.policy", "random").build().get()
    val piece = new Array[Byte](100)
    in.readFully(5L * PageSize, piece)
    overwrite(fs.getFileStatus(path))
    in.readFully(5L * PageSize + 1000, piece)
    assert(piece sameElements data.slice(5 * PageSize + 1000, 5 * PageSize + 1100))
    intercept[RemoteFileChangedException](in.readFully(9L * PageSize, piece))
    in.close()
  }

  test("changed before anything was read, under a believed record with missing pages: the present version is read") {
    val fs = fileSystem()
    val (path, _) = nextAged()
    val status = fs.getFileStatus(path)
    val first = opened(fs, status)
    first.readFully(5L * PageSize, new Array[Byte](10))
    first.close()
    val newer = overwrite(status)
    val in = opened(fileSystem(), status)
    val piece = new Array[Byte](100)
    in.readFully(9L * PageSize, piece)
    assert(piece sameElements newer.slice(9 * PageSize, 9 * PageSize + 100))
    in.readFully(5L * PageSize, piece)
    assert(piece sameElements newer.slice(5 * PageSize, 5 * PageSize + 100))
    in.close()
  }

  test(
    "a status that is too long reads to the object's end, one that is too short as far as it says; neither is kept"
  ) {
    val fs = fileSystem()
    val (path, data) = put(3 * PageSize)
    val status = fs.getFileStatus(path)
    for (length <- Seq(7L * PageSize, 2L * PageSize + 5)) {
      val wrong = new FileStatus(length, false, 1, 1L, status.getModificationTime, path)
      assert(readAll(opened(fs, wrong)) sameElements data.take(length.toInt))
    }
    gateway.clear()
    assert(readAll(opened(fs, status)) sameElements data)
    assert(pagesFetched.nonEmpty)
  }
}

class VersionPolicyTest extends AnyFunSuite {

  private val fresh = Some(ObjectMetadata("seen", racy = false, confirmed = 1000))
  private val racy = Some(ObjectMetadata("seen", racy = true, confirmed = 1000))

  test("the caller's entity tag counts before any record, and is to be confirmed") {
    for (record <- Seq(None, fresh, racy)) assert(decide(Some("given"), record, strict = false) == Claimed("given"))
  }

  test("the caller's entity tag is believed for a while after the store has confirmed it, in a record or a status") {
    for (now <- Seq(1000L, 1060L)) {
      assert(decide(Some("seen"), fresh, strict = false, now, maxStaleness = 60) == Given("seen"))
      assert(decide(Some("given"), fresh, strict = false, now, maxStaleness = 60, asked = Some(1000)) == Given("given"))
    }
    for (now <- Seq(1061L, 999L)) {
      assert(decide(Some("seen"), fresh, strict = false, now, maxStaleness = 60) == Claimed("seen"))
      assert(
        decide(Some("given"), None, strict = false, now, maxStaleness = 60, asked = Some(1000)) == Claimed("given")
      )
    }
  }

  test("a record is believed unless the object could have been overwritten in the same second") {
    assert(decide(None, fresh, strict = false, now = 1000) == Seen("seen"))
    assert(decide(None, racy, strict = false, now = 1000) == Confirm(None))
  }

  test("a record is believed for a while after the store has confirmed it, and not where the clock was set back") {
    for (now <- Seq(1000L, 1030L, 1060L))
      assert(decide(None, fresh, strict = false, now, maxStaleness = 60) == Seen("seen"))
    for (now <- Seq(1061L, 100000L, 999L))
      assert(decide(None, fresh, strict = false, now, maxStaleness = 60) == Confirm(None))
  }

  test("the first response tells what nobody knows") {
    for (strict <- Seq(true, false)) assert(decide(None, None, strict) == Learn)
  }

  test("where pages may be kept of what nobody knows, the store is asked for the version alone") {
    assert(decide(None, None, strict = false, mayBeKept = true) == Confirm(None))
  }

  test("strict believes nobody, and still holds the store to what the caller knows") {
    for (record <- Seq(None, fresh, racy))
      assert(decide(Some("given"), record, strict = true) == Confirm(Some("given")))
    for (record <- Seq(fresh, racy)) assert(decide(None, record, strict = true) == Confirm(None))
  }
}
