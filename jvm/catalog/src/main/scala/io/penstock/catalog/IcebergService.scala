package io.penstock.catalog

import java.net.{InetAddress, InetSocketAddress, URLDecoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.security.MessageDigest
import java.util.concurrent.Executors

import scala.jdk.CollectionConverters._

import com.sun.net.httpserver.{HttpExchange, HttpServer}
import org.apache.hadoop.hive.conf.HiveConf
import org.apache.iceberg.catalog.{Namespace, SupportsNamespaces}
import org.apache.iceberg.hadoop.ConfigProperties
import org.apache.iceberg.hive.HiveCatalog
import org.apache.iceberg.view.BaseMetastoreViewCatalog
import org.slf4j.LoggerFactory

/**
 * Iceberg's REST catalog on a loopback port, for the Penstock service alone, which decides who may ask what.
 *
 * `hive-site.xml` and `core-site.xml` on the class path say which database and which store. A request must bring the
 * key of the file that the process was started with, since every process of this machine reaches the port.
 */
object IcebergService {

  private val Usage = "IcebergService KEY_FILE"
  private val KeyHeader = "X-Penstock-Key"

  /** Each of them may hold a connection to the database. */
  private val Threads = 16

  /** The largest body that is read, in bytes: a commit's updates, of which the largest is a schema. */
  private val LargestBody = 16 << 20

  def main(arguments: Array[String]): Unit = arguments match {
    case Array(file) => serve(catalogOf(new HiveConf(classOf[HiveCatalog])), Files.readAllBytes(Path.of(file)))
    case _ =>
      Console.err.println(s"Usage: $Usage")
      sys.exit(2)
  }

  /** Prints the port once it serves, until its standard input ends, so that it never outlives who started it. */
  private[catalog] def serve(catalog: BaseMetastoreViewCatalog with SupportsNamespaces, key: Array[Byte]): Unit = {
    val server = serverOf(catalog, key)
    // Nothing is kept that a kill would lose, and threads of requests or libraries would keep the process alive.
    MetastoreService.endWithInput(() => Runtime.getRuntime.halt(0))
    println(server.getAddress.getPort)
  }

  /** Asks the database once, whose metastore must be there and of this version, before any client is let in. */
  private def catalogOf(conf: HiveConf): HiveCatalog = {
    // As for applications: a commit compares what it replaces, in the metastore.
    conf.setBoolean(ConfigProperties.LOCK_HIVE_ENABLED, false)
    val catalog = new HiveCatalog
    catalog.setConf(conf)
    catalog.initialize("lake", (SessionCatalog.HiveCatalogDefaults + ("clients" -> Threads.toString)).asJava)
    catalog.namespaceExists(Namespace.of("default"))
    catalog
  }

  private def serverOf(catalog: BaseMetastoreViewCatalog with SupportsNamespaces, key: Array[Byte]): HttpServer = {
    val server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress, 0), 0)
    server.setExecutor(Executors.newFixedThreadPool(Threads))
    server.createContext("/", new Answers(new IcebergRoutes(catalog), key).handle(_))
    server.start()
    server
  }

  private final class Answers(routes: IcebergRoutes, key: Array[Byte]) {
    private val log = LoggerFactory.getLogger(classOf[Answers])

    def handle(exchange: HttpExchange): Unit =
      try
        if (knows(exchange)) send(exchange, answer(exchange)) else exchange.sendResponseHeaders(401, NoBody)
      finally exchange.close()

    private def knows(exchange: HttpExchange): Boolean =
      Option(exchange.getRequestHeaders.getFirst(KeyHeader))
        .exists(given => MessageDigest.isEqual(given.getBytes(UTF_8), key))

    /** The status and the body of the answer, whatever happens: without one a client takes the process for killed. */
    private def answer(exchange: HttpExchange): (Int, Option[Array[Byte]]) =
      try {
        val body = exchange.getRequestBody.readNBytes(LargestBody + 1)
        if (body.length > LargestBody) throw new IllegalArgumentException(s"The body has more than $LargestBody bytes")
        val address = exchange.getRequestURI
        val response =
          routes.respond(exchange.getRequestMethod, address.getRawPath, queryOf(address.getRawQuery), body)
        (200, response.map(RestCall.Json.writeValueAsBytes(_)))
      } catch {
        // Not non-fatal ones alone: of the fatal ones, the JVM's options end the process where memory is used up.
        case failure: Throwable =>
          val error = IcebergRoutes.error(failure)
          if (error.code == 500) log.error("{} {}", exchange.getRequestMethod, exchange.getRequestURI, failure)
          (error.code, Some(RestCall.Json.writeValueAsBytes(error)))
      }
  }

  private val NoBody = -1L

  private def send(exchange: HttpExchange, answer: (Int, Option[Array[Byte]])): Unit = answer match {
    case (status, Some(body)) if exchange.getRequestMethod != "HEAD" =>
      exchange.getResponseHeaders.set("Content-Type", "application/json")
      exchange.sendResponseHeaders(status, body.length.toLong)
      exchange.getResponseBody.write(body)
    case (status, _) => exchange.sendResponseHeaders(if (status == 200) 204 else status, NoBody)
  }

  private def queryOf(query: String): Map[String, String] =
    Option(query).toSeq
      .flatMap(_.split('&'))
      .map(_.split("=", 2))
      .collect { case Array(name, value) => URLDecoder.decode(name, UTF_8) -> URLDecoder.decode(value, UTF_8) }
      .toMap
}
