package io.penstock.cluster

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import jakarta.servlet.http.{HttpServletRequest, HttpServletResponse}
import jakarta.servlet.{Filter, FilterChain, FilterConfig, ServletRequest, ServletResponse}

/** Lets requests through that bring the key in a header, and no others. The key is the filter's parameter `key`. */
class KeyFilter extends Filter {

  private var key: Array[Byte] = _

  override def init(configured: FilterConfig): Unit =
    key = configured.getInitParameter(KeyFilter.Parameter).getBytes(UTF_8)

  override def doFilter(request: ServletRequest, response: ServletResponse, chain: FilterChain): Unit = {
    val brought = request.asInstanceOf[HttpServletRequest].getHeader(KeyFilter.Header)
    if (brought != null && MessageDigest.isEqual(brought.getBytes(UTF_8), key)) chain.doFilter(request, response)
    else response.asInstanceOf[HttpServletResponse].sendError(HttpServletResponse.SC_FORBIDDEN)
  }
}

object KeyFilter {
  val Header = "X-Penstock-Key"
  val Parameter = "key"
}
