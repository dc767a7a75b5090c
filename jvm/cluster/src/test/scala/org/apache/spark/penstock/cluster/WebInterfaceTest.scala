package org.apache.spark.penstock.cluster

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.file.{Files, Path}
import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.util.{Try, Using}

import org.apache.spark.sql.SparkSession
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.cluster.protocol.KeyFilter

/** A driver without pages, and somebody who wants to see them later. */
class WebInterfaceTest extends AnyFunSuite {

  private val Key = "k3y"
  private val client = HttpClient.newHttpClient()

  private def ask(url: String, key: Option[String]): HttpResponse[String] = {
    val request = HttpRequest.newBuilder(URI.create(url))
    key.foreach(request.header(KeyFilter.Header, _))
    client.send(request.build(), HttpResponse.BodyHandlers.ofString())
  }

  private def within(test: (SparkSession, Path, CompletableFuture[String]) => Unit): Unit = {
    val directory = Files.createTempDirectory("web-interface")
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.ui.port", "0")
      .getOrCreate()
    val opened = new CompletableFuture[String]
    try
      Using.resource(new WebInterface(spark.sparkContext, "app-1", directory, opened.complete(_))) { _ =>
        test(spark, directory, opened)
      }
    finally spark.stop()
  }

  private def want(directory: Path): Unit = {
    val _ = Files.writeString(directory.resolve(WebInterface.FileName), s"$Key\n")
  }

  test("the pages are there once they are wanted, with all that was before, for whoever has the key") {
    within { (spark, directory, opened) =>
      spark.sparkContext.setJobDescription("a job of before")
      assert(spark.range(10).selectExpr("sum(id)").head().getLong(0) == 45)
      assert(!opened.isDone)
      want(directory)
      val url = opened.get(60, TimeUnit.SECONDS)

      assert(ask(s"$url/jobs/", None).statusCode == 403)
      assert(ask(s"$url/api/v1/applications", Some("another")).statusCode == 403)
      assert(ask(s"$url/static/webui.css", None).statusCode == 403)

      val jobs = ask(s"$url/jobs/", Some(Key))
      assert(jobs.statusCode == 200)
      assert(jobs.body.contains("a job of before"))
      assert(ask(s"$url/api/v1/applications", Some(Key)).body.contains("\"id\" : \"app-1\""))
      assert(!ask(s"$url/environment/", Some(Key)).body.contains(Key))
      val deadline = System.nanoTime + TimeUnit.SECONDS.toNanos(60)
      while (ask(s"$url/SQL/", Some(Key)).statusCode != 200) assert(System.nanoTime < deadline)
      assert(ask(s"$url/SQL/", Some(Key)).body.contains("a job of before"))
      assert(ask(s"$url/SQL/", None).statusCode == 403)
    }
  }

  test("nothing listens where nobody wants to look, and nothing after the end") {
    var address = ""
    within { (_, directory, opened) =>
      Thread.sleep(500)
      assert(!opened.isDone)
      want(directory)
      address = opened.get(60, TimeUnit.SECONDS)
    }
    assert(Try(ask(s"$address/jobs/", Some(Key))).isFailure)
  }
}
