package io.penstock.sql

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{Map => JavaMap}
import javax.security.sasl.AuthenticationException

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.hive.service.CompositeService
import org.apache.hive.service.auth.PasswdAuthenticationProvider
import org.apache.hive.service.cli.CLIService
import org.apache.hive.service.cli.operation.{Operation, OperationManager}
import org.apache.hive.service.cli.session.{HiveSession, SessionManager}
import org.apache.hive.service.cli.thrift.ThriftCLIService
import org.apache.spark.sql.{SQLContext, SparkSession}

/**
 * Spark's Thrift server, which speaks HiveServer2's protocol with JDBC and ODBC drivers, on a free port of the driver's
 * loopback. It takes any user name, with `token` as its password.
 *
 * A JVM has one: Hive finds its authenticator by the name of a class.
 */
class JdbcServer(spark: SparkSession, token: String) {

  private val server: CompositeService = {
    SessionToken.expected = token.getBytes(UTF_8)
    JdbcServer.Settings.foreach { case (key, value) =>
      spark.sparkContext.hadoopConfiguration.set(key, value)
    }
    // Hive looks for this one in a configuration of its own, which has the JVM's properties alone.
    System.setProperty("hive.server2.custom.authentication.class", classOf[SessionToken].getName)
    JdbcServer.start(spark.sqlContext)
  }
  private val sessions: SessionManager = service[CLIService].getSessionManager
  private val operations: OperationManager = sessions.getOperationManager

  def port: Int = service[ThriftCLIService].getPortNumber

  /** Whether a statement waits or runs. One that has ended, and whose rows a client may still fetch, does neither. */
  def busy: Boolean = operations.synchronized {
    values[OperationManager, Operation](operations, "handleToOperation").exists(!_.getStatus.getState.isTerminal)
  }

  /** The time when one of the open connections was last used, in milliseconds since 1970; 0 where none is open. */
  def lastRequestMs: Long =
    values[SessionManager, HiveSession](sessions, "handleToSession").map(_.getLastAccessTime).maxOption.getOrElse(0L)

  def stop(): Unit = server.stop()

  private def service[S: ClassTag]: S = server.getServices.asScala.collectFirst { case found: S => found }.get

  /** The values of a map that Hive's class `M` keeps to itself. */
  private def values[M: ClassTag, V](of: M, map: String): Iterable[V] = {
    val field = implicitly[ClassTag[M]].runtimeClass.getDeclaredField(map)
    field.setAccessible(true)
    field.get(of).asInstanceOf[JavaMap[_, V]].values.asScala
  }
}

object JdbcServer {

  /** By reflection: it is in every Spark, but its jar is not in every registry. What it extends is Hive's. */
  private def start(context: SQLContext): CompositeService =
    Class
      .forName("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2")
      .getMethod("startWithContext", classOf[SQLContext])
      .invoke(null, context)
      .asInstanceOf[CompositeService]

  private val Settings = Map(
    "hive.server2.transport.mode" -> "binary",
    "hive.server2.thrift.bind.host" -> "127.0.0.1",
    "hive.server2.thrift.port" -> "0",
    "hive.server2.authentication" -> "CUSTOM",
    // The user is a name alone: the cluster has one account of the machine, and one set of keys.
    "hive.server2.enable.doAs" -> "false",
    "hive.server2.logging.operation.enabled" -> "false"
  )
}

/** Lets a client in that has the session's token. */
class SessionToken extends PasswdAuthenticationProvider {

  override def Authenticate(user: String, password: String): Unit =
    if (password == null || !MessageDigest.isEqual(password.getBytes(UTF_8), SessionToken.expected))
      throw new AuthenticationException("the password must be the session's token (penstock session address ID)")
}

private[sql] object SessionToken {
  @volatile var expected: Array[Byte] = Array.emptyByteArray
}
