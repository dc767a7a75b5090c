package io.penstock.fs.commit

import java.net.{InetSocketAddress, URI}
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.faults.FaultyGateway
import io.penstock.fs.testing.Store

/** Leftovers of killed jobs in a listing, and which of them may go. */
class SurveyTest extends AnyFunSuite {

  private val Job = "11111111-2222-3333-4444-555555555555"

  private def survey(listed: Listed*): Survey = {
    val survey = new Survey("lake")
    listed.foreach(survey.add)
    survey
  }

  test("data is not taken for what is left, however it is named") {
    val data = Seq("t/p=1/part-0.parquet", "t/_SUCCESS", "t/__magic", "t/_temporary", "t/my_temporary/x", "t/magic/x")
    assert(survey(data.map(Listed(_, 1, 1)): _*).leftovers.isEmpty)
  }

  test("temporary trees are found at any depth, as a whole, and as young as their newest key") {
    val found = survey(
      Listed("a/_temporary/0/x", 5, 10),
      Listed("a/_temporary/0/y/z", 7, 30),
      Listed("b/c/__magic_job-1/job/x.pending", 1, 20),
      Listed("b/.spark-staging-1/_temporary/x", 1, 20)
    ).leftovers
    assert(
      found.map(l => (l.kind, l.at.key, l.files, l.newest)) == Vector(
        ("temporary", "a/_temporary/", 2, 30),
        ("magic", "b/c/__magic_job-1/", 1, 20),
        ("staging", "b/.spark-staging-1/", 1, 20)
      )
    )
  }

  test("a commit log is unfinished when its latest number has content; older numbers are left over once it has none") {
    val unfinished =
      survey(Listed("t/_penstock_commit/000000000003", 0, 1), Listed("t/_penstock_commit/000000000004", 9, 2))
    assert(unfinished.unfinished == Vector(Location("lake", "t/")))
    assert(unfinished.leftovers.isEmpty)
    val finished = survey(Listed("_penstock_commit/000000000003", 9, 1), Listed("_penstock_commit/000000000004", 0, 2))
    assert(finished.unfinished.isEmpty)
    assert(finished.leftovers.map(l => (l.kind, l.files)) == Vector(("journal", 1)))
  }

  test("what is known of a job's outcome goes after a while, and that it is lost stays") {
    def outcome(job: String, outcome: Outcome, modified: Long) =
      Listed(s"t/_penstock_commit/$job.outcome", outcome.content.length.toLong, modified)
    val found = survey(
      Listed("t/_penstock_commit/.conditions-1", 0, 1),
      outcome("a", Outcome.Landed, 2),
      outcome("b", Outcome.Losing, 3),
      outcome("c", Outcome.Lost, 4)
    )
    val keys = Vector(".conditions-1", "a.outcome", "b.outcome").map("t/_penstock_commit/" + _)
    assert(found.leftovers == Vector(Leftover.Superseded(Location("lake", "t/_penstock_commit/"), keys, 3)))
  }

  test("uploads are grouped by their job, below the directory that all of them share") {
    val found = Survey.grouped(
      "lake",
      Iterator(
        PendingUpload(s"t/p=1/part-00000-$Job.c000", "a", 5),
        PendingUpload(s"t/p=2/part-00001-$Job.c000", "b", 9),
        PendingUpload("backup/big.tar", "c", 7)
      )
    )
    assert(
      found.map(l => (l.at.key, l.job, l.files, l.newest)) == Vector(("backup/", None, 1, 7), ("t/", Some(Job), 2, 9))
    )
  }

  test("tables that a prefix is part of are those of the directories above it, and not its own") {
    def above(prefix: String) = Survey.above(Location("lake", prefix)).map(_.key)
    assert(above("") == Vector())
    assert(above("t/") == Vector(""))
    assert(above("a/t/day=1/") == Vector("", "a/", "a/t/"))
    assert(above("a/t/da") == Vector("", "a/", "a/t/"))
  }

  test("what was touched since the limit stays, and so do uploads beside the tree of a job that was") {
    val old = Survey.grouped("lake", Iterator(PendingUpload("t/part-r-00000", "a", 5))).head
    val young = Survey.grouped("lake", Iterator(PendingUpload("u/part-r-00000", "b", 100))).head
    val magic = survey(Listed("t/__magic_job-1/x", 1, 100)).leftovers.head
    assert(Survey.removable(Vector(old, young), 50)(old))
    assert(!Survey.removable(Vector(old, young), 50)(young))
    assert(!Survey.removable(Vector(old, magic), 50)(old))
    assert(Survey.removable(Vector(old, magic), 101)(magic))
  }
}

class SweepArgumentsTest extends AnyFunSuite {

  private lazy val bucket = Store.newBucket()

  /** The conf that the command's settings make, which are a file of `fs.s3a.` properties. */
  private def read(endpoint: String) = {
    val file = Files.createTempFile("sweep", ".properties")
    try {
      val settings = Store.conf(URI.create(endpoint)).getPropsWithPrefix("fs.s3a.").asScala
      Files.write(file, settings.map { case (name, value) => s"fs.s3a.$name=$value" }.asJava)
      SweepArguments.read(
        List("--settings", file.toString, "--bucket", bucket.name, "--prefix", "t/", "--before", "7", "--dry-run")
      )
    } finally Files.delete(file)
  }

  test("options are read") {
    val arguments = read(Store.endpoint.toString)
    assert((arguments.place, arguments.before, arguments.dryRun) == ((Location(bucket.name, "t/"), 7L, true)))
  }

  test("Ceph 16, which refuses an empty object that is signed by chunks: a commit that is finished can be emptied") {
    val store = new InetSocketAddress(Store.endpoint.getHost, Store.endpoint.getPort)
    Using.resource(new FaultyGateway(store)) { gateway =>
      Using.resource(Store.fileSystem(bucket, read(gateway.endpoint).conf)) { files =>
        new S3AObjectStore(files.asInstanceOf[S3AFileSystem])
          .write("t/_penstock_commit/000000000001", Array.emptyByteArray)
      }
      val puts = gateway.requests.filter(_.method == "PUT")
      assert(puts.map(_.headers("x-amz-content-sha256").take(8)) == Seq("e3b0c442"))
    }
  }
}

class ReplacingTest extends AnyFunSuite {

  private val table = Location("lake", "sales/")

  private def replaced(keys: String*): Seq[String] =
    Replacing.replaced(keys.iterator.map(Location("lake", _)), table, uploads = Seq.empty, marker = None).map(_.key)

  test("an overwrite deletes data, and neither the table's commit log nor its skipping index") {
    val data = Seq("sales/day=1/part-0.parquet", "sales/_SUCCESS", "sales/my_skipindex/part-0.parquet")
    val kept = Seq("sales/", "sales/_penstock_commit/000000000001", "sales/_skipindex/manifest.json")
    assert(replaced(data ++ kept: _*) == data)
  }
}
