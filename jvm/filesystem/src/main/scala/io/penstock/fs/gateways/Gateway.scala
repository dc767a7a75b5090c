package io.penstock.fs.gateways

import java.net.{InetSocketAddress, URI}

import software.amazon.awssdk.http.SdkHttpFullRequest

/** Where a store is asked for: what requests are signed for, and what their Host header says. */
final case class Endpoint(scheme: String, host: String, port: Int) {

  def url: String = s"$scheme://$authority"

  /** The port is left out where it is the scheme's own, as in the Host header that is signed. */
  def authority: String = if (port == Endpoint.standardPort(scheme)) host else s"$host:$port"
}

object Endpoint {

  private def standardPort(scheme: String): Int = if (scheme == "https") 443 else 80

  /**
   * @param text
   *   a URL, or only its host and port
   * @param scheme
   *   for a text without one
   * @throws IllegalArgumentException
   *   for what is no endpoint, saying what to give instead
   */
  def parse(text: String, scheme: String): Endpoint = {
    def refuse(why: String) =
      throw new IllegalArgumentException(
        s"“$text” is not an S3 endpoint: $why; give it like http://gateway1.example.com:8080"
      )
    val uri =
      try URI.create(if (text.contains("://")) text else s"$scheme://$text")
      catch { case error: IllegalArgumentException => refuse(error.getMessage) }
    if (uri.getHost == null) refuse("it names no host")
    if (uri.getScheme != "http" && uri.getScheme != "https") refuse("only http and https are spoken")
    if (!Set(null, "", "/").contains(uri.getRawPath)) refuse("the gateways of one store have no path")
    Endpoint(uri.getScheme, uri.getHost, if (uri.getPort < 0) standardPort(uri.getScheme) else uri.getPort)
  }
}

/**
 * One way into the store.
 *
 * @param address
 *   the one of the endpoint's addresses to connect to (an IPv6 one in brackets); none: whatever its name stands for
 */
final case class Gateway(endpoint: Endpoint, address: Option[String] = None) {

  def name: String = endpoint.url + address.filter(_ != endpoint.host).fold("")(address => s" ($address)")

  def socket: InetSocketAddress = new InetSocketAddress(address.getOrElse(endpoint.host), endpoint.port)

  /** The request as its signer must see it; `home` is the endpoint the client was built for. */
  private[gateways] def addressed(request: SdkHttpFullRequest, home: Endpoint): SdkHttpFullRequest = {
    // Whatever stands before the home's name is the bucket, in virtual-host style.
    val bucket = if (request.host.endsWith("." + home.host)) request.host.dropRight(home.host.length) else ""
    request.toBuilder.protocol(endpoint.scheme).host(bucket + endpoint.host).port(endpoint.port).build()
  }

  /** The signed request as it must be sent: to the address, while the Host header keeps the name that was signed. */
  private[gateways] def routed(signed: SdkHttpFullRequest): SdkHttpFullRequest = address match {
    case None => signed
    case Some(address) => signed.toBuilder.putHeader("Host", endpoint.authority).host(address).build()
  }
}
