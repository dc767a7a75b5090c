package org.apache.spark.penstock.cluster

import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.annotation.tailrec

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.cluster.protocol.Endpoint

/** A driver under somebody else's scheduler. */
class PagesPluginTest extends AnyFunSuite {

  test(
    "the addresses of the driver and its pages are published while there is a context, those of the pages on demand"
  ) {
    val directory = Files.createTempDirectory("pages")
    val context = new SparkContext(
      new SparkConf(false)
        .setMaster("local[1]")
        .setAppName("pages")
        .set("spark.ui.enabled", "false")
        .set("spark.ui.port", "0")
        .set("spark.plugins", classOf[PagesPlugin].getName)
        .set("spark.penstock.directory", directory.toString)
    )
    try {
      val published = Endpoint.read(directory).get
      assert(published.applicationId == context.applicationId)
      assert(published.driverUrl.startsWith("spark://CoarseGrainedScheduler@"))
      assert(published.uiUrl.isEmpty)
      Files.writeString(directory.resolve(WebInterface.FileName), "k3y")
      val deadline = System.nanoTime + TimeUnit.SECONDS.toNanos(60)
      @tailrec def opened(): String = Endpoint.read(directory).map(_.uiUrl).filter(_.nonEmpty) match {
        case Some(url) => url
        case None =>
          assert(System.nanoTime < deadline)
          Thread.sleep(50)
          opened()
      }
      assert(opened().startsWith("http://"))
    } finally context.stop()
    assert(Endpoint.read(directory).isEmpty)
  }
}
