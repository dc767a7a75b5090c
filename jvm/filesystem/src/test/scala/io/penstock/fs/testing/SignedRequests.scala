package io.penstock.fs.testing

import java.net.URI
import java.net.http.HttpRequest.BodyPublishers
import java.net.http.HttpResponse.BodyHandlers
import java.net.http.{HttpClient, HttpRequest}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.time.format.DateTimeFormatter
import java.time.{Instant, ZoneOffset}
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

/** Requests to an S3 store signed with AWS's version 4, in path style, by nothing but the JDK. */
private[testing] class SignedRequests(endpoint: URI, accessKey: String, secretKey: String) {

  private val client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()

  def send(
      method: String,
      path: String,
      query: Map[String, String] = Map.empty,
      body: Array[Byte] = Array.emptyByteArray
  ): SignedRequests.Response = {
    val time = SignedRequests.Time.format(Instant.now())
    val headers = Seq(
      "host" -> endpoint.getAuthority,
      "x-amz-content-sha256" -> SignedRequests.Unsigned,
      "x-amz-date" -> time
    )
    val address = path.split("/", -1).map(encode).mkString("/")
    val parameters = query.toSeq.sorted.map { case (name, value) => s"${encode(name)}=${encode(value)}" }.mkString("&")
    val names = headers.map(_._1).mkString(";")
    val canonical = Seq(
      method,
      address,
      parameters,
      headers.map { case (name, value) => s"$name:$value\n" }.mkString,
      names,
      SignedRequests.Unsigned
    ).mkString("\n")
    val scope = s"${time.take(8)}/us-east-1/s3/aws4_request"
    val toSign = s"AWS4-HMAC-SHA256\n$time\n$scope\n${hex(sha256(canonical.getBytes(UTF_8)))}"
    val key = scope.split("/").foldLeft(s"AWS4$secretKey".getBytes(UTF_8))(hmac)
    val authorization =
      s"AWS4-HMAC-SHA256 Credential=$accessKey/$scope, SignedHeaders=$names, Signature=${hex(hmac(key, toSign))}"

    val uri = URI.create(s"$endpoint$address" + (if (parameters.isEmpty) "" else s"?$parameters"))
    val request = HttpRequest
      .newBuilder(uri)
      .method(method, if (body.isEmpty) BodyPublishers.noBody() else BodyPublishers.ofByteArray(body))
    // The client writes `Host` itself.
    for ((name, value) <- headers.tail :+ ("authorization" -> authorization)) request.header(name, value)
    val response = client.send(request.build(), BodyHandlers.ofByteArray())
    SignedRequests.Response(
      s"$method $uri",
      response.statusCode,
      response.headers.firstValue("etag").orElse(""),
      response.body
    )
  }

  /** RFC 3986, as signing asks for. */
  private def encode(text: String): String =
    text
      .getBytes(UTF_8)
      .map { byte =>
        val char = (byte & 0xff).toChar
        if (char < 128 && (char.isLetterOrDigit || "-._~".contains(char))) char.toString else f"%%${byte & 0xff}%02X"
      }
      .mkString

  private def sha256(data: Array[Byte]): Array[Byte] = MessageDigest.getInstance("SHA-256").digest(data)

  private def hmac(key: Array[Byte], text: String): Array[Byte] = {
    val mac = Mac.getInstance("HmacSHA256")
    mac.init(new SecretKeySpec(key, "HmacSHA256"))
    mac.doFinal(text.getBytes(UTF_8))
  }

  private def hex(data: Array[Byte]): String = data.map(byte => f"${byte & 0xff}%02x").mkString
}

private[testing] object SignedRequests {

  /** In place of a body's digest, which the tests' Java takes longer to compute than to send the body. */
  private val Unsigned = "UNSIGNED-PAYLOAD"

  private val Time = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC)

  final case class Response(request: String, status: Int, quotedEtag: String, body: Array[Byte]) {

    def etag: String = quotedEtag.stripPrefix("\"").stripSuffix("\"")

    def expect(statuses: Int*): Response = {
      assert(statuses.contains(status), s"$request: $status ${new String(body, UTF_8)}")
      this
    }

    /** The texts of every such element of an XML answer. */
    def elements(name: String): Seq[String] =
      s"<$name>([^<]*)</$name>".r.findAllMatchIn(new String(body, UTF_8)).map(m => unescape(m.group(1))).toVector

    private def unescape(text: String): String =
      Seq("&lt;" -> "<", "&gt;" -> ">", "&quot;" -> "\"", "&#39;" -> "'", "&amp;" -> "&")
        .foldLeft(text) { case (result, (escaped, plain)) => result.replace(escaped, plain) }
  }
}
