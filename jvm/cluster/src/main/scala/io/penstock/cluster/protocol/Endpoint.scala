package io.penstock.cluster.protocol

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path, StandardCopyOption}
import java.security.MessageDigest

import jakarta.servlet.http.{HttpServletRequest, HttpServletResponse}
import jakarta.servlet.{Filter, FilterChain, FilterConfig, ServletRequest, ServletResponse}

/**
 * The address of an application's driver for its executors.
 *
 * Its file has three lines, in this order. `uiUrl` is empty when the driver has no UI.
 */
final case class Endpoint(driverUrl: String, applicationId: String, uiUrl: String) {

  def publish(directory: Path): Unit =
    AtomicFile.replace(directory.resolve(Endpoint.FileName), s"$driverUrl\n$applicationId\n$uiUrl\n")
}

object Endpoint {
  val FileName = "endpoint"

  /** The endpoint published in `directory`; None while there is none. */
  def read(directory: Path): Option[Endpoint] =
    try {
      // The limit keeps the empty third line of a driver without UI.
      val lines = new String(Files.readAllBytes(directory.resolve(FileName)), UTF_8).split("\n", -1)
      Some(Endpoint(lines(0), lines(1), lines(2)))
    } catch { case _: NoSuchFileException => None }

  def withdraw(directory: Path): Unit = { val _ = Files.deleteIfExists(directory.resolve(FileName)) }
}

/** Admits HTTP requests with the key in a header, and refuses others. The key is the filter's parameter `key`. */
class KeyFilter extends Filter {

  private var key: Array[Byte] = _

  override def init(configured: FilterConfig): Unit =
    key = configured.getInitParameter(KeyFilter.Parameter).getBytes(UTF_8)

  override def doFilter(request: ServletRequest, response: ServletResponse, chain: FilterChain): Unit = {
    val sent = request.asInstanceOf[HttpServletRequest].getHeader(KeyFilter.Header)
    if (sent != null && MessageDigest.isEqual(sent.getBytes(UTF_8), key)) chain.doFilter(request, response)
    else response.asInstanceOf[HttpServletResponse].sendError(HttpServletResponse.SC_FORBIDDEN)
  }
}

object KeyFilter {
  val Header = "X-Penstock-Key"
  val Parameter = "key"
}

/** Replaces files that other processes read: a reader sees the old content or the new, never a part. */
private[cluster] object AtomicFile {

  def replace(file: Path, content: String): Unit = {
    val temporary = file.resolveSibling(s".${file.getFileName}.${ProcessHandle.current.pid}")
    Files.write(temporary, content.getBytes(UTF_8))
    Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING)
  }
}
