package io.penstock.catalog

import java.io.IOException
import java.net.{InetAddress, InetSocketAddress, Socket}
import java.nio.file.{Files, Path}
import java.nio.{ByteBuffer, ByteOrder}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.thrift.transport.{TServerSocket, TSocket}
import org.slf4j.LoggerFactory

/**
 * A server socket on a loopback address that serves some users of this machine, and closes the connections of others.
 *
 * @param users
 *   the ids of those that it serves
 */
private[catalog] final class LocalServerSocket(address: InetSocketAddress, timeoutMs: Int, users: Set[Int])
    extends TServerSocket(address, timeoutMs) {

  private val log = LoggerFactory.getLogger(getClass)

  override def accept(): TSocket = {
    var peer = super.accept()
    while (!serves(peer.getSocket)) {
      peer.close()
      peer = super.accept()
    }
    peer
  }

  private def serves(socket: Socket): Boolean = {
    val user = LocalPeers.userOf(socket)
    val known = user.exists(users)
    if (!known)
      log.warn("A connection of user {} was closed: only this service's own is served", user.fold("?")(_.toString))
    known
  }
}

/** Who is at the other end of a connection within this machine, as the kernel says in `/proc/net/tcp` (proc(5)). */
private[catalog] object LocalPeers {

  private val Tables = Seq("/proc/net/tcp", "/proc/net/tcp6").map(Path.of(_))

  /** The user that this process runs as, and root, who could become it. */
  def ownAndRoot(): Set[Int] = Set(0, Files.getAttribute(Path.of("/proc/self"), "unix:uid").asInstanceOf[Int])

  private val Established = "01"

  /** How often a connection is looked for: a table that changes while it is read may miss one. */
  private val Looks = 3

  /**
   * The id of the user whose process connected this socket; none where that end is closed by now: the kernel says of a
   * socket without a process that it were root's.
   */
  def userOf(accepted: Socket): Option[Int] = {
    val connected = (accepted.getRemoteSocketAddress, accepted.getLocalSocketAddress)
    def rows = Tables.iterator.flatMap(linesOf).flatMap(parse)
    Iterator.fill(Looks)(rows).flatten.collectFirst { case Entry(from, to, user) if (from, to) == connected => user }
  }

  /** One socket: its own address, the other end's, and its user. */
  final case class Entry(from: InetSocketAddress, to: InetSocketAddress, user: Int)

  /** A row of the kernel's table; none for its head, and for connections that an end of them has begun to close. */
  def parse(row: String): Option[Entry] = row.trim.split(" +") match {
    case Array(_, from, to, Established, _, _, _, user, _*) =>
      Some(Entry(addressOf(from), addressOf(to), user.toInt))
    case _ => None
  }

  /** Of `0100007F:1F90`: words of 32 bits in the machine's own order, and a port. */
  private def addressOf(text: String): InetSocketAddress = {
    val (host, port) = (text.takeWhile(_ != ':'), text.dropWhile(_ != ':').tail)
    val bytes = ByteBuffer.allocate(host.length / 2).order(ByteOrder.nativeOrder)
    host.grouped(8).foreach(word => bytes.putInt(Integer.parseUnsignedInt(word, 16)))
    new InetSocketAddress(InetAddress.getByAddress(bytes.array), Integer.parseInt(port, 16))
  }

  private def linesOf(table: Path): Seq[String] =
    try Using.resource(Files.newBufferedReader(table))(_.lines.iterator.asScala.toVector)
    catch { case _: IOException => Nil } // a kernel without IPv6
}
