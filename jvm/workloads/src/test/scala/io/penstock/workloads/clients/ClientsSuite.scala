package io.penstock.workloads.clients

import java.nio.file.Files
import java.util.concurrent.{CyclicBarrier, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.application.UsageError
import io.penstock.workloads.LocalSpark

class ClientsSuite extends AnyFunSuite with LocalSpark {

  test("more clients than cores are at work at once") {
    val clients = new Clients(spark.sparkContext)
    for (run <- Seq[(Client => Int) => Seq[Int]](clients.together(7, "test")(_), clients.apart(7, "test")(_)))
      // Nobody comes past the meeting before all seven are there.
      assert(run(ClientsSuite.meet) == (0 until 7))
  }

  test("clients that wait for each other know where each of them is") {
    val places = new Clients(spark.sparkContext).together(3, "test")(_.executors)
    assert(places == Seq.fill(3)(Vector.fill(3)("driver")))
  }

  test("a client that fails lets the others end, and is named") {
    val clients = new Clients(spark.sparkContext)
    val failed = intercept[ClientsFailed] {
      clients.together(3, "write, 3 clients") { client =>
        if (client.number == 1) throw new java.io.IOException("no space")
      }
    }
    assert(failed.getMessage == "write, 3 clients: 1 of 3 clients failed; client 1: java.io.IOException: no space")
  }

  test("a place with something in it is refused, an empty and a missing one are not") {
    val place = Files.createDirectories(directory.resolve("place"))
    Place.requireEmpty(place.toUri.toString, new Configuration())
    Place.requireEmpty(place.resolve("missing").toUri.toString, new Configuration())
    Files.writeString(place.resolve("precious"), "x")
    val refused = intercept[UsageError](Place.requireEmpty(place.toUri.toString, new Configuration()))
    assert(refused.getMessage.contains("not empty"))
  }
}

object ClientsSuite {
  private val meeting = new CyclicBarrier(7)

  private def meet(client: Client): Int = {
    val _ = meeting.await(60, TimeUnit.SECONDS)
    client.number
  }
}
