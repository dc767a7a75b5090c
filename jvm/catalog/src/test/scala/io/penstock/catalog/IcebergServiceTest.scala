package io.penstock.catalog

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.util
import java.util.concurrent.TimeUnit

import org.apache.iceberg.catalog.Namespace
import org.apache.iceberg.inmemory.InMemoryCatalog
import org.scalatest.funsuite.AnyFunSuite

class IcebergServiceTest extends AnyFunSuite {

  private val client = HttpClient.newHttpClient

  /** Runs a test with a process that serves, and a function that sends it a request. */
  private def serving(test: (Process, String => HttpResponse[String]) => Unit): Unit = {
    val java = s"${System.getProperty("java.home")}/bin/java"
    val process = new ProcessBuilder(
      Seq(java, "-cp", System.getProperty("java.class.path"), "io.penstock.catalog.InMemoryService", "key"): _*
    ).redirectError(ProcessBuilder.Redirect.INHERIT).start()
    try {
      val port = process.inputReader.readLine()
      def ask(path: String) = {
        val request = HttpRequest.newBuilder(URI.create(s"http://127.0.0.1:$port/v1/$path"))
        client.send(
          request.header("X-Penstock-Key", "key").build(),
          HttpResponse.BodyHandlers.ofString
        )
      }
      test(process, ask)
    } finally process.destroyForcibly()
  }

  test("the process ends with its input, also after it has answered requests") {
    serving { (process, ask) =>
      assert(ask("config").statusCode == 200)
      process.getOutputStream.close()
      assert(process.waitFor(20, TimeUnit.SECONDS))
    }
  }

  test("a failure of the machine is answered, and the process serves on") {
    serving { (_, ask) =>
      val failed = ask("lake/namespaces/deep")
      assert((failed.statusCode, failed.body.contains("StackOverflowError")) == ((500, true)))
      assert(ask("lake/namespaces").statusCode == 200)
    }
  }
}

/** The service over a catalog in memory, in which a namespace is nested too deeply to be loaded. */
object InMemoryService {

  def main(arguments: Array[String]): Unit = {
    val catalog = new InMemoryCatalog {
      override def loadNamespaceMetadata(namespace: Namespace): util.Map[String, String] =
        if (namespace.toString == "deep") throw new StackOverflowError
        else super.loadNamespaceMetadata(namespace)
    }
    catalog.initialize("memory", util.Map.of("warehouse", "s3a://lake/warehouse"))
    IcebergService.serve(catalog, arguments.head.getBytes(UTF_8))
  }
}
