package io.penstock.cluster.protocol

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class EndpointTest extends AnyFunSuite {

  private def directory(): Path = Files.createTempDirectory("endpoint")
  private val published = Endpoint("spark://CoarseGrainedScheduler@127.0.0.1:1", "app-1", "http://127.0.0.1:4040")

  test("there is no endpoint before the driver publishes one") {
    assert(Endpoint.read(directory()).isEmpty)
  }

  test("an executor reads what the driver published, with and without a UI") {
    for (endpoint <- Seq(published, published.copy(uiUrl = ""))) {
      val where = directory()
      endpoint.publish(where)
      assert(Endpoint.read(where).contains(endpoint))
    }
  }

  test("publishing leaves nothing but the endpoint, so no reader can take a half-written file for it") {
    val where = directory()
    published.publish(where)
    published.copy(applicationId = "app-2").publish(where)
    assert(where.toFile.list.toSeq == Seq(Endpoint.FileName))
    assert(Endpoint.read(where).map(_.applicationId).contains("app-2"))
  }

  test("a driver whose context stopped is not found any more; withdrawing twice is harmless") {
    val where = directory()
    published.publish(where)
    Endpoint.withdraw(where)
    Endpoint.withdraw(where)
    assert(Endpoint.read(where).isEmpty)
  }
}
