package io.penstock.catalog

import java.net.{InetAddress, InetSocketAddress, ServerSocket, Socket}
import java.nio.charset.StandardCharsets.US_ASCII
import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.util.{Try, Using}

import org.scalatest.funsuite.AnyFunSuite

class LocalPeersTest extends AnyFunSuite {

  private val loopback = InetAddress.getByName("127.0.0.1")

  private def listening[T](users: Set[Int])(use: LocalServerSocket => T): T = {
    val server = new LocalServerSocket(new InetSocketAddress(loopback, 0), 60000, users)
    try use(server)
    finally server.close()
  }

  private def connect(server: LocalServerSocket): Socket = {
    val socket = new Socket(loopback, server.getServerSocket.getLocalPort)
    socket.setSoTimeout(60000)
    socket
  }

  test("a process of a user who is served is let in, and its bytes arrive") {
    listening(LocalPeers.ownAndRoot()) { server =>
      Using.resource(connect(server)) { client =>
        client.getOutputStream.write("hello".getBytes(US_ASCII))
        val accepted = server.accept()
        assert(LocalPeers.userOf(accepted.getSocket).exists(LocalPeers.ownAndRoot()))
        assert(new String(accepted.getSocket.getInputStream.readNBytes(5), US_ASCII) == "hello")
        accepted.close()
      }
    }
  }

  test("another user's connection is closed without a byte, and the next one is looked at") {
    listening(Set(Int.MaxValue)) { server =>
      val accepting = CompletableFuture.supplyAsync(() => Try(server.accept()))
      for (_ <- 1 to 2) Using.resource(connect(server))(client => assert(client.getInputStream.read() == -1))
      assert(!accepting.isDone)
      server.interrupt()
      assert(accepting.get(60, TimeUnit.SECONDS).isFailure)
    }
  }

  test("who sends a request and closes at once is nobody, not root, whom the kernel names as the closed end's user") {
    Using.resource(new ServerSocket(0, 1, loopback)) { server =>
      Using.resource(new Socket(loopback, server.getLocalPort))(_.getOutputStream.write("drop".getBytes(US_ASCII)))
      Using.resource(server.accept()) { accepted =>
        assert(LocalPeers.userOf(accepted).isEmpty)
        assert(new String(accepted.getInputStream.readNBytes(4), US_ASCII) == "drop")
      }
    }
  }

  test("a row of the kernel's table names both ends and the user; its head names none") {
    val row =
      "   1: 0100007F:C350 0200007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000 20 4 30 10 -1"
    val mapped = row.replace("0100007F", "0000000000000000FFFF00000100007F").replace("1000 ", "0 ")
    val entry = LocalPeers.Entry(address("127.0.0.1", 50000), address("127.0.0.2", 8080), 1000)
    assert(LocalPeers.parse(row).contains(entry))
    assert(LocalPeers.parse(mapped).contains(entry.copy(user = 0)))
    assert(LocalPeers.parse(row.replace(" 01 ", " 06 ")).isEmpty, "TIME_WAIT")
    assert(
      LocalPeers.parse("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid").isEmpty
    )
  }

  private def address(host: String, port: Int) = new InetSocketAddress(InetAddress.getByName(host), port)
}
