package io.penstock.fs.locality

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, LocatedFileStatus}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.PenstockFileSystem
import io.penstock.fs.testing.{Requests, Store}

class LocatedFilesTest extends AnyFunSuite {

  private lazy val bucket = {
    val made = Store.newBucket()
    made.put("table/part-0", new Array[Byte](10))
    made
  }

  private def conf(hosts: String*): Configuration = {
    val conf = Store.conf()
    conf.set("fs.s3a.impl", classOf[PenstockFileSystem].getName)
    if (hosts.nonEmpty) conf.set(LiveHosts.Setting, hosts.mkString(", "))
    conf
  }

  private def listed(files: FileSystem): LocatedFileStatus = files.listFiles(bucket.path("table"), true).next()

  test("listings and statuses name the same two hosts, without another request") {
    Using.resource(Store.fileSystem(bucket, conf("a", "b", "c"))) { files =>
      val status = files.getFileStatus(bucket.path("table/part-0"))
      var hosts = Seq.empty[String]
      val requests = Requests.during { hosts = files.getFileBlockLocations(status, 0, 10).flatMap(_.getHosts).toSeq }
      assert(requests.isEmpty)
      assert(hosts.size == 2 && hosts.toSet.subsetOf(Set("a", "b", "c")))
      assert(listed(files).getBlockLocations.flatMap(_.getHosts).toSeq == hosts)
      assert(files.listLocatedStatus(bucket.path("table")).next().getBlockLocations.flatMap(_.getHosts).toSeq == hosts)
    }
  }

  test("where there is no choice of hosts the answer is S3A's") {
    for (settings <- Seq(conf(), conf("only"))) Using.resource(Store.fileSystem(bucket, settings)) { files =>
      assert(listed(files).getBlockLocations.flatMap(_.getHosts).toSeq == Seq("localhost"))
    }
  }
}
