package io.penstock.fs.gateways

import java.io.InputStream
import java.net.URI
import java.time.{Duration, Instant}
import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}
import java.util.{Optional, UUID}

import scala.annotation.{nowarn, tailrec}
import scala.jdk.CollectionConverters._
import scala.jdk.OptionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import org.slf4j.LoggerFactory
import software.amazon.awssdk.auth.credentials.{AwsCredentials, AwsCredentialsProvider, CredentialUtils}
import software.amazon.awssdk.auth.signer.AwsSignerExecutionAttribute._
import software.amazon.awssdk.core.client.config.{
  ClientOverrideConfiguration,
  SdkAdvancedClientOption,
  SdkClientConfiguration,
  SdkClientOption
}
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.interceptor.{
  Context,
  ExecutionAttributes,
  ExecutionInterceptorChain,
  InterceptorContext,
  SdkExecutionAttribute
}
import software.amazon.awssdk.core.signer.Signer
import software.amazon.awssdk.core.{ResponseInputStream, SdkClient, SdkRequest, SdkResponse}
import software.amazon.awssdk.http._
import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.services.s3.model.{GetObjectRequest, GetObjectResponse}
import software.amazon.awssdk.services.s3.{DelegatingS3Client, S3Client}
import software.amazon.awssdk.utils.DateUtils
import software.amazon.awssdk.utils.http.SdkHttpUtils

/**
 * An S3 client whose GETs of ranges go past the SDK's pipeline, which takes two thirds of their processor time, and
 * more while its code is interpreted (docs/results.md): a request is written, signed by the client's signer, and sent
 * by the client's HTTP client, with the same headers and before the same interceptors.
 *
 * Only an answer of status 200 or 206 is taken. After anything else the SDK makes the call, as if its first attempt had
 * failed: the errors and their retries are the SDK's, and so are all calls of the following ten seconds. Thread-safe.
 *
 * S3A's statistics that start with `store_io_` do not count these GETs.
 *
 * @param nanoTime
 *   the clock of those ten seconds
 */
final private[gateways] class FastGetClient(client: S3Client, path: FastPath, nanoTime: () => Long)
    extends DelegatingS3Client(client) {

  @volatile private var failedAt = nanoTime() - FastGetClient.Detour

  private[gateways] def withClock(nanoTime: () => Long): FastGetClient = new FastGetClient(client, path, nanoTime)

  /** The response has the object's tag, version, length and time, and the headers; not what else they say. */
  override def getObject(request: GetObjectRequest): ResponseInputStream[GetObjectResponse] =
    if (!FastPath.takes(request) || nanoTime() - failedAt < FastGetClient.Detour) super.getObject(request)
    else {
      val call = new FastGet(path, request)
      try call.send()
      catch {
        case NonFatal(failure) =>
          failedAt = nanoTime()
          FastGetClient.log.debug("The SDK repeats a GET of {}", request.key, failure)
          super.getObject(call.repeated)
      }
    }
}

private[gateways] object FastGetClient {

  private val log = LoggerFactory.getLogger(classOf[FastGetClient])

  /** So that a store which asks for patience, or refuses, is asked at the SDK's pace. In nanoseconds. */
  val Detour: Long = SECONDS.toNanos(10)

  /**
   * The client with a fast path, or as it is where that would send something else: another way of signing or
   * addressing, or an HTTP client that is not to be had.
   *
   * @param options
   *   those that the client was built with
   */
  def over(
      client: S3Client,
      options: ClientOverrideConfiguration.Builder,
      credentials: AwsCredentialsProvider,
      pathStyle: Boolean,
      conf: Configuration
  ): S3Client = {
    val built = client.serviceClientConfiguration
    val fast = for {
      endpoint <- built.endpointOverride.toScala if pathStyle && endpoint.getRawPath.stripPrefix("/").isEmpty
      if OwnSigners.forall(conf.get(_, "").isEmpty) && !conf.getBoolean(Constants.HTTP_SIGNER_ENABLED, false)
      settings <- settingsOf(client)
    } yield {
      val signer = Option(options.advancedOptions.get(SdkAdvancedClientOption.SIGNER))
      val prefix = Option(options.advancedOptions.get(SdkAdvancedClientOption.USER_AGENT_PREFIX))
      val agent = (prefix ++ Option(settings.option(SdkClientOption.CLIENT_USER_AGENT))).mkString(" ")
      val headers = options.headers.asScala.view.mapValues(_.asScala.toSeq).toMap + ("User-Agent" -> Seq(agent))
      new FastGetClient(
        client,
        FastPath(
          settings.option(SdkClientOption.SYNC_HTTP_CLIENT),
          endpoint,
          built.region,
          signer.getOrElse(GatewaySigner.standard()),
          credentials,
          new ExecutionInterceptorChain(options.executionInterceptors),
          headers,
          Option(options.apiCallAttemptTimeout)
        ),
        () => System.nanoTime()
      )
    }
    fast.getOrElse(client)
  }

  private val OwnSigners = Seq(Constants.SIGNING_ALGORITHM, Constants.SIGNING_ALGORITHM_S3)

  /**
   * By a private field: a second HTTP client would have connections of its own, beside those of `fs.s3a`'s settings.
   */
  @tailrec private def settingsOf(client: SdkClient): Option[SdkClientConfiguration] = client match {
    // S3A's is one that looks for the region of a bucket when it is refused.
    case delegating: DelegatingS3Client => settingsOf(delegating.delegate)
    case _ =>
      try {
        val field = client.getClass.getDeclaredField("clientConfiguration")
        field.setAccessible(true)
        Some(field.get(client).asInstanceOf[SdkClientConfiguration])
      } catch {
        case e: ReflectiveOperationException =>
          log.debug("GETs take the SDK's pipeline: {} shows no HTTP client", client.getClass.getName, e)
          None
      }
  }
}

/**
 * What the GETs of one client have in common.
 *
 * @param headers
 *   of each request
 * @param timeout
 *   until an answer begins
 */
@nowarn("cat=deprecation") // As long as S3A itself configures signers of this kind.
final private[gateways] case class FastPath(
    http: SdkHttpClient,
    endpoint: URI,
    region: Region,
    signer: Signer,
    credentials: AwsCredentialsProvider,
    interceptors: ExecutionInterceptorChain,
    headers: Map[String, Seq[String]],
    timeout: Option[Duration]
) {

  /** The request without its signature. */
  def written(get: GetObjectRequest): SdkHttpFullRequest = {
    val request = SdkHttpFullRequest.builder
      .method(SdkHttpMethod.GET)
      .protocol(endpoint.getScheme)
      .host(endpoint.getHost)
      .encodedPath(s"/${get.bucket}/${SdkHttpUtils.urlEncodeIgnoreSlashes(get.key)}")
      .putHeader("Range", get.range)
      .putHeader("amz-sdk-invocation-id", FastPath.invocation().toString)
      .putHeader("amz-sdk-request", "attempt=1")
    if (endpoint.getPort >= 0) request.port(endpoint.getPort)
    if (get.ifMatch != null) request.putHeader("If-Match", get.ifMatch)
    if (get.versionId != null) request.putRawQueryParameter("versionId", get.versionId)
    headers.foreach { case (name, values) => request.putHeader(name, values.asJava) }
    request.build()
  }

  /**
   * @param call
   *   what interceptors know of the call
   */
  def signed(request: SdkHttpFullRequest, keys: AwsCredentials, call: ExecutionAttributes): SdkHttpFullRequest =
    signer.sign(
      request,
      call.copy
        .putAttribute(AWS_CREDENTIALS, keys)
        .putAttribute(SIGNING_REGION, region)
        .putAttribute(SERVICE_SIGNING_NAME, "s3")
        .putAttribute(SIGNER_DOUBLE_URL_ENCODE, java.lang.Boolean.FALSE)
        .putAttribute(SIGNER_NORMALIZE_PATH, java.lang.Boolean.FALSE)
    )
}

private[gateways] object FastPath {

  /** Not the one that looks after the gateways: a probe may hold its threads for seconds. */
  private lazy val timer = Gateways.timer(threads = 1, "penstock-get-timeouts")

  /** Whether a request is one for a range of an object, or of a version of it, and asks for nothing else. */
  def takes(get: GetObjectRequest): Boolean = get.range != null && get.bucket != null && !get.bucket.contains(':') &&
    get.key != null && get.key.nonEmpty && !get.overrideConfiguration.isPresent && unused(get)

  private def unused(get: GetObjectRequest): Boolean = get.sseCustomerKey == null && get.requestPayer == null &&
    get.checksumMode == null && get.partNumber == null && get.ifNoneMatch == null && get.ifModifiedSince == null &&
    get.ifUnmodifiedSince == null && get.expectedBucketOwner == null && get.responseCacheControl == null &&
    get.responseContentDisposition == null && get.responseContentEncoding == null &&
    get.responseContentLanguage == null && get.responseContentType == null && get.responseExpires == null

  private def invocation(): UUID = {
    val random = ThreadLocalRandom.current
    new UUID(random.nextLong(), random.nextLong())
  }

  /** Runs `work`, and `late` beside it if it takes longer. */
  def within[A](timeout: Option[Duration])(late: => Unit)(work: => A): A = timeout match {
    case None => work
    case Some(limit) =>
      val alarm = timer.schedule((() => late): Runnable, limit.toMillis, MILLISECONDS)
      try work
      finally alarm.cancel(false)
  }
}

/** One GET, for one thread. */
final private class FastGet(path: FastPath, get: GetObjectRequest) {

  private var seen = InterceptorContext.builder.request(get).build()

  private val attributes = new ExecutionAttributes()
    .putAttribute(SdkExecutionAttribute.SERVICE_NAME, "S3")
    .putAttribute(SdkExecutionAttribute.OPERATION_NAME, "GetObject")
  // The signer notes the gateways it has tried in a copy, which shares what is there already.
  GatewayCall.of(attributes)

  /** The SDK's call goes on with what interceptors have noted of this one, such as the gateways it has tried. */
  def repeated: GetObjectRequest = get.toBuilder.overrideConfiguration(_.executionAttributes(attributes)).build()

  /**
   * @throws Exception
   *   of any kind, if the answer is not the content
   */
  def send(): ResponseInputStream[GetObjectResponse] = {
    path.interceptors.beforeExecution(seen, attributes)
    try {
      transmit(signed())
      answered()
    } catch {
      case NonFatal(failure) =>
        seen.responseBody.ifPresent(FastGet.drop(_))
        path.interceptors.onExecutionFailure(new FastGet.Failed(seen, failure), attributes)
        throw failure
    }
  }

  private def signed(): SdkHttpFullRequest = {
    val credentials = path.credentials.resolveCredentials()
    if (CredentialUtils.isAnonymous(credentials)) throw SdkClientException.create("Anonymous requests are not signed")
    seen = path.interceptors.modifyRequest(seen, attributes)
    path.interceptors.beforeMarshalling(seen, attributes)
    seen = seen.toBuilder.httpRequest(path.written(get)).build()
    path.interceptors.afterMarshalling(seen, attributes)
    seen = path.interceptors.modifyHttpRequestAndHttpContent(seen, attributes)
    path.signed(seen.httpRequest.asInstanceOf[SdkHttpFullRequest], credentials, attributes)
  }

  private def transmit(request: SdkHttpFullRequest): Unit = {
    seen = seen.toBuilder.httpRequest(request).build()
    path.interceptors.beforeTransmission(seen, attributes)
    val exchange = path.http.prepareRequest(HttpExecuteRequest.builder.request(request).build())
    val answer = FastPath.within(path.timeout)(exchange.abort())(exchange.call())
    val body = answer.responseBody.orElseGet(() => AbortableInputStream.createEmpty())
    seen = seen.toBuilder.httpResponse(answer.httpResponse).responseBody(body).build()
    path.interceptors.afterTransmission(seen, attributes)
    val status = answer.httpResponse.statusCode
    if (status != HttpStatusCode.OK && status != HttpStatusCode.PARTIAL_CONTENT)
      throw SdkClientException.create(s"The store answered with status $status")
  }

  private def answered(): ResponseInputStream[GetObjectResponse] = {
    seen = path.interceptors.modifyHttpResponse(seen, attributes)
    path.interceptors.beforeUnmarshalling(seen, attributes)
    seen = seen.toBuilder.response(FastGet.response(seen.httpResponse)).build()
    path.interceptors.afterUnmarshalling(seen, attributes)
    seen = path.interceptors.modifyResponse(seen, attributes)
    path.interceptors.afterExecution(seen, attributes)
    new ResponseInputStream(
      seen.response.asInstanceOf[GetObjectResponse],
      seen.responseBody.get match {
        case body: AbortableInputStream => body
        case body => AbortableInputStream.create(body)
      }
    )
  }
}

private object FastGet {

  private def response(http: SdkHttpResponse): GetObjectResponse = {
    def header(name: String): Option[String] = http.firstMatchingHeader(name).toScala
    val response = GetObjectResponse.builder
      .eTag(header("ETag").orNull)
      .versionId(header("x-amz-version-id").orNull)
      .contentRange(header("Content-Range").orNull)
    header("Content-Length").flatMap(_.toLongOption).foreach(response.contentLength(_))
    header("Last-Modified").flatMap(instant).foreach(response.lastModified)
    response.sdkHttpResponse(http)
    response.build()
  }

  private def instant(date: String): Option[Instant] = Try(DateUtils.parseRfc822Date(date)).toOption

  /** So that its connection is free for the SDK's attempt, even if the body is long. */
  private def drop(body: InputStream): Unit = body match {
    case abortable: Abortable => abortable.abort()
    case other => other.close()
  }

  /** What interceptors learn of a failure. */
  final private class Failed(seen: InterceptorContext, failure: Throwable) extends Context.FailedExecution {
    override def exception: Throwable = failure
    override def request: SdkRequest = seen.request
    override def httpRequest: Optional[SdkHttpRequest] = Optional.ofNullable(seen.httpRequest)
    override def httpResponse: Optional[SdkHttpResponse] = Optional.ofNullable(seen.httpResponse)
    override def response: Optional[SdkResponse] = Optional.ofNullable(seen.response)
  }
}
