package io.penstock.catalog

import java.net.{InetAddress, InetSocketAddress}
import java.util.concurrent.TimeUnit

import org.apache.hadoop.hive.conf.HiveConf
import org.apache.hadoop.hive.conf.HiveConf.ConfVars
import org.apache.hadoop.hive.metastore.{HiveMetaStore, IHMSHandler, TSetIpAddressProcessor}
import org.apache.thrift.protocol.{TBinaryProtocol, TProtocol}
import org.apache.thrift.server.{ServerContext, TServerEventHandler, TThreadPoolServer}
import org.apache.thrift.transport.{TServerSocket, TTransport, TTransportException}

/**
 * The Hive metastore's Thrift protocol over the catalog's database, by which engines other than Spark find its tables.
 *
 * `hive-site.xml` and `core-site.xml` on the class path say which database and which store. Hive's own program of this
 * kind listens on every address. The protocol has no passwords, so this one listens on the address it is given, and on
 * a loopback address it serves the processes of its own user and root alone ([[LocalServerSocket]]).
 */
object MetastoreService {

  private val Usage = "MetastoreService HOST PORT, where port 0 chooses a free one"

  /** Each connection has a thread and up to one connection to the database at a time. */
  private val MostConnections = 200

  /** A client that was silent for so long connects again; what lost its network would hold its thread for ever. */
  private val IdleMs = TimeUnit.HOURS.toMillis(1).toInt

  /**
   * Prints the port once it listens, and serves until its standard input ends, so that it never outlives who started
   * it. Exit code 2: it cannot listen there.
   */
  def main(arguments: Array[String]): Unit = arguments match {
    case Array(host, port) =>
      try {
        val socket = listen(new InetSocketAddress(InetAddress.getByName(host), port.toInt))
        val server = serverOf(socket, new HiveConf(classOf[HiveMetaStore]))
        endWithInput(() => server.stop())
        println(socket.getServerSocket.getLocalPort)
        server.serve()
      } catch {
        case refused: TTransportException =>
          Console.err.println(Option(refused.getCause).fold(refused.getMessage)(_.getMessage))
          sys.exit(2)
      }
    case _ =>
      Console.err.println(s"Usage: $Usage")
      sys.exit(2)
  }

  /** Who started a service holds the other end of its standard input, so that it ends with that one. */
  private[catalog] def endWithInput(stop: () => Unit): Unit = {
    val watching = new Thread(
      () => {
        while (System.in.read() >= 0) {}
        stop()
      },
      "end of input"
    )
    watching.setDaemon(true)
    watching.start()
  }

  private def listen(address: InetSocketAddress): TServerSocket =
    if (address.getAddress.isLoopbackAddress) new LocalServerSocket(address, IdleMs, LocalPeers.ownAndRoot())
    else new TServerSocket(address, IdleMs)

  /** Opens the database, whose metastore must be there and of this version, before any client is let in. */
  private def serverOf(socket: TServerSocket, conf: HiveConf): TThreadPoolServer = {
    val longest = conf.getLongVar(ConfVars.METASTORESERVERMAXMESSAGESIZE)
    val handler =
      HiveMetaStore.newRetryingHMSHandler(new HiveMetaStore.HMSHandler("penstock metastore", conf, true), conf)
    val server = new TThreadPoolServer(
      new TThreadPoolServer.Args(socket)
        .processor(new TSetIpAddressProcessor[IHMSHandler](handler))
        // Strict: what a page in a browser sends here, which is HTTP, is no message.
        .protocolFactory(new TBinaryProtocol.Factory(true, true, longest, longest))
        .maxWorkerThreads(MostConnections)
    )
    server.setServerEventHandler(new ReleasesDatabase(handler))
    server
  }

  /** A handler keeps its connection to the database with the thread; the thread serves another client next. */
  private final class ReleasesDatabase(handler: IHMSHandler) extends TServerEventHandler {
    override def deleteContext(context: ServerContext, in: TProtocol, out: TProtocol): Unit = handler.shutdown()
    override def createContext(in: TProtocol, out: TProtocol): ServerContext = null
    override def preServe(): Unit = ()
    override def processContext(context: ServerContext, in: TTransport, out: TTransport): Unit = ()
  }
}
