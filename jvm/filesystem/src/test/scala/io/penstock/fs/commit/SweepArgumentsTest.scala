package io.penstock.fs.commit

import java.net.{InetSocketAddress, URI}
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.testing.{FaultyGateway, Store}

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
        new S3ABucket(files.asInstanceOf[S3AFileSystem]).write("t/_penstock_commit/000000000001", Array.emptyByteArray)
      }
      val puts = gateway.requests.filter(_.method == "PUT")
      assert(puts.map(_.headers("x-amz-content-sha256").take(8)) == Seq("e3b0c442"))
    }
  }
}
