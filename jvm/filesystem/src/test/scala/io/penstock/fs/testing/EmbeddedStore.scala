package io.penstock.fs.testing

import java.io.File
import java.net.http.HttpRequest.BodyPublishers
import java.net.http.HttpResponse.BodyHandlers
import java.net.http.{HttpClient, HttpRequest}
import java.net.{URI, URLClassLoader}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.time.format.DateTimeFormatter
import java.time.{Instant, ZoneOffset}
import java.util.Properties
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

/**
 * s3proxy inside this JVM, its objects in memory, on a free port of 127.0.0.1. It ends with the JVM.
 *
 * It has a class path of its own: its Jackson, Guava and SDK are others than Hadoop's and Spark's.
 */
private[testing] object EmbeddedStore {

  /** The jar with everything s3proxy needs; the build copies it there. */
  private val JarProperty = "penstock.test.s3proxy"

  def start(accessKey: String, secretKey: String): URI = {
    val jar = new File(sys.props.getOrElse(JarProperty, "target/s3proxy/s3proxy.jar"))
    require(jar.isFile, s"no s3proxy at $jar: run Maven's generate-test-resources, or set -D$JarProperty=/path/to/jar")
    val loader = new URLClassLoader(Array(jar.toURI.toURL), ClassLoader.getPlatformClassLoader)
    within(loader)(start(loader, accessKey, secretKey))
  }

  private def start(loader: ClassLoader, accessKey: String, secretKey: String): URI = {
    val stores = loader.loadClass("org.gaul.s3proxy.BlobStores")
    val store =
      stores.getMethod("create", classOf[String], classOf[Properties]).invoke(null, "transient", new Properties)
    val proxy = loader.loadClass("org.gaul.s3proxy.S3Proxy")
    val builder = proxy.getMethod("builder").invoke(null)
    val authentication = loader.loadClass("org.gaul.s3proxy.auth.AuthenticationType")
    val signed = authentication.getMethod("valueOf", classOf[String]).invoke(null, "AWS_V4")

    def set(name: String, arguments: (Class[_], AnyRef)*): Unit =
      builder.getClass.getMethod(name, arguments.map(_._1): _*).invoke(builder, arguments.map(_._2): _*)

    set("blobStore", loader.loadClass("org.gaul.s3proxy.blobstore.BlobStore") -> store)
    set("endpoint", classOf[URI] -> URI.create("http://127.0.0.1:0"))
    val text = classOf[String]
    set("awsAuthentication", authentication -> signed, text -> accessKey, text -> secretKey)
    val server = builder.getClass.getMethod("build").invoke(builder)
    proxy.getMethod("start").invoke(server)
    URI.create(s"http://127.0.0.1:${proxy.getMethod("getPort").invoke(server)}")
  }

  /** Its libraries look for their parts with the thread's class loader; its threads inherit it. */
  private def within[A](loader: ClassLoader)(work: => A): A = {
    val thread = Thread.currentThread
    val before = thread.getContextClassLoader
    thread.setContextClassLoader(loader)
    try work
    finally thread.setContextClassLoader(before)
  }
}

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
