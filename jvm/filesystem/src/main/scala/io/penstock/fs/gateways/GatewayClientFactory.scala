package io.penstock.fs.gateways

import java.io.{FilterInputStream, IOException, InputStream, InterruptedIOException}
import java.net.{SocketException, SocketTimeoutException, URI, UnknownHostException}
import java.util.Optional
import java.util.concurrent.CancellationException
import java.util.concurrent.TimeUnit.SECONDS
import javax.net.ssl.SSLException

import scala.annotation.nowarn

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3ClientFactory.S3ClientCreationParameters
import org.apache.hadoop.fs.s3a.{Constants, DefaultS3ClientFactory}
import software.amazon.awssdk.auth.signer.AwsS3V4Signer
import software.amazon.awssdk.core.CredentialType
import software.amazon.awssdk.core.client.config.{ClientOverrideConfiguration, SdkAdvancedClientOption}
import software.amazon.awssdk.core.exception.{
  AbortedException,
  ApiCallAttemptTimeoutException,
  ApiCallTimeoutException,
  SdkServiceException
}
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttribute, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.core.retry.RetryPolicyContext
import software.amazon.awssdk.core.retry.conditions.RetryCondition
import software.amazon.awssdk.core.signer.Signer
import software.amazon.awssdk.http.{Abortable, SdkHttpFullRequest, SdkHttpMethod, SdkHttpResponse}
import software.amazon.awssdk.services.s3.S3Client

import io.penstock.fs.credentials.RefreshingCredentialsProvider
import io.penstock.fs.metrics.Counters

/**
 * S3A's own clients, whose every attempt goes to the least loaded of many gateways:
 * `fs.s3a.s3.client.factory.impl=io.penstock.fs.gateways.GatewayClientFactory`.
 *
 * `fs.s3a.penstock.endpoints` lists the endpoints beside `fs.s3a.endpoint`, which stays the first of them. Over http
 * and with path-style access each address of a name is a gateway of its own; over https, where the certificate is for
 * the name, and with the bucket in the host's name, the name stays whole. With a single gateway nothing is added to
 * S3A's client but what its GETs have of a [[FastGetClient]].
 */
@nowarn("cat=deprecation") // As long as S3A itself configures a RetryPolicy and signers of this kind.
class GatewayClientFactory extends DefaultS3ClientFactory {

  /** Of the client built last. */
  private var options: ClientOverrideConfiguration.Builder = _

  override def createS3Client(uri: URI, parameters: S3ClientCreationParameters): S3Client = synchronized {
    val client = super.createS3Client(uri, parameters)
    FastGetClient.over(client, options, parameters.getCredentialSet, parameters.isPathStyleAccess, getConf)
  }

  override protected def createClientOverrideConfiguration(
      parameters: S3ClientCreationParameters,
      conf: Configuration
  ): ClientOverrideConfiguration.Builder = synchronized {
    options = withGateways(parameters, conf)
    options
  }

  private def withGateways(
      parameters: S3ClientCreationParameters,
      conf: Configuration
  ): ClientOverrideConfiguration.Builder = {
    val builder = super.createClientOverrideConfiguration(parameters, conf)
    if (RefreshingCredentialsProvider.isUsed(conf))
      builder.addExecutionInterceptor(RefreshingCredentialsProvider.Refusals)
    val endpoints = GatewayClientFactory.endpoints(parameters.getEndpoint, conf)
    val scattered = parameters.isPathStyleAccess && endpoints.exists(_.scheme == "http")
    if (endpoints.isEmpty) return builder
    gateways(endpoints, scattered).fold(builder) { gateways =>
      // The one of the setting fs.s3a.signing-algorithm, where there is one.
      val signer =
        Option(builder.advancedOptions.get(SdkAdvancedClientOption.SIGNER)).getOrElse(GatewaySigner.standard())
      val retries = builder.retryPolicy
      builder
        .putAdvancedOption(SdkAdvancedClientOption.SIGNER, new GatewaySigner(gateways, endpoints.head, signer))
        .addExecutionInterceptor(GatewayObserver)
        .retryPolicy(retries.toBuilder.retryCondition(new ObservedRetries(retries.retryCondition)).build())
    }
  }

  /** None where there is nothing to choose from. */
  protected def gateways(endpoints: Seq[Endpoint], scattered: Boolean): Option[Gateways] = {
    val single = endpoints.size == 1 && (!scattered || Gateways.resolve(endpoints.head.host).size == 1)
    if (single) None else Some(Gateways.of(endpoints, scattered))
  }
}

object GatewayClientFactory {

  /** A list with commas, of URLs or of hosts and ports; per bucket as `fs.s3a.bucket.BUCKET.penstock.endpoints`. */
  val Endpoints = "fs.s3a.penstock.endpoints"

  /** Empty where S3A leaves the endpoint to the SDK. */
  private[gateways] def endpoints(first: String, conf: Configuration): Seq[Endpoint] = {
    val secure = conf.getBoolean(Constants.SECURE_CONNECTIONS, Constants.DEFAULT_SECURE_CONNECTIONS)
    val all = Option(first).filter(_.nonEmpty).toSeq ++ conf.getTrimmedStrings(Endpoints)
    all.map(Endpoint.parse(_, if (secure) "https" else "http")).distinct
  }
}

/**
 * Chooses the gateway for each attempt: the SDK signs inside its loop of retries, so whoever signs can send each
 * attempt elsewhere, with a signature for the Host it goes to.
 *
 * @param home
 *   the endpoint the client was built for
 */
@nowarn("cat=deprecation") // As long as S3A's own custom signers are of this kind.
final private[gateways] class GatewaySigner(gateways: Gateways, home: Endpoint, signer: Signer) extends Signer {

  override def credentialType: CredentialType = signer.credentialType

  override def sign(request: SdkHttpFullRequest, attributes: ExecutionAttributes): SdkHttpFullRequest = {
    val attempt = GatewayCall.of(attributes).next(gateways, GatewaySigner.BodyLess(request.method))
    try attempt.gateway.routed(signer.sign(attempt.gateway.addressed(request, home), attributes))
    catch {
      case error: Throwable =>
        attempt.finished(0)
        throw error
    }
  }
}

private[gateways] object GatewaySigner {

  /** The default of S3A's clients with this SDK. */
  @nowarn("cat=deprecation") // As long as S3A's own custom signers are of this kind.
  def standard(): Signer = AwsS3V4Signer.create()

  private val BodyLess = Set(SdkHttpMethod.GET, SdkHttpMethod.HEAD, SdkHttpMethod.DELETE)
}

/** One call of the SDK's client: its attempts, one after the other. */
final private[gateways] class GatewayCall {
  private var tried = Set.empty[Gateway]
  private var latest: Option[Gateways.InFlight] = None

  /** Whether the latest attempt's end is that of its response's body. */
  @volatile var streams: Boolean = false

  def current: Option[Gateways.InFlight] = synchronized(latest)

  def next(gateways: Gateways, prompt: Boolean): Gateways.InFlight = synchronized {
    // Whoever has not ended by now is being retried for a reason nobody could name.
    latest.foreach(_.failed(Failure.Broken))
    val attempt = gateways.start(prompt, tried)
    if (latest.exists(_.gateway != attempt.gateway)) Counters.GatewayFailovers.increment()
    tried += attempt.gateway
    latest = Some(attempt)
    streams = false
    attempt
  }
}

private[gateways] object GatewayCall {

  private val Key = new ExecutionAttribute[GatewayCall]("io.penstock.fs.gateways.GatewayCall")

  def of(attributes: ExecutionAttributes): GatewayCall = Option(attributes.getAttribute(Key)).getOrElse {
    val call = new GatewayCall
    attributes.putAttribute(Key, call)
    call
  }

  /** The latest attempt of a call, where the client signs at all. */
  def current(attributes: ExecutionAttributes): Option[Gateways.InFlight] =
    Option(attributes.getAttribute(Key)).flatMap(_.current)

  /** Leaves it open whether an attempt failed where the exception tells nothing about its gateway. */
  def gaveUp(attributes: ExecutionAttributes, error: Throwable): Unit =
    current(attributes).filter(_.open).foreach { attempt =>
      Failures.of(error) match {
        case Some(failure) => attempt.failed(failure)
        case None => attempt.finished(0)
      }
    }
}

/** Tells the pool how each attempt fared; a response counts as in flight until its body is closed. */
private[gateways] object GatewayObserver extends ExecutionInterceptor {

  override def afterTransmission(context: Context.AfterTransmission, attributes: ExecutionAttributes): Unit =
    GatewayCall.current(attributes).foreach { attempt =>
      Failures.of(context.httpResponse) match {
        case Some(failure) => attempt.failed(failure)
        case None => attempt.answered()
      }
    }

  override def modifyHttpResponseContent(
      context: Context.ModifyHttpResponse,
      attributes: ExecutionAttributes
  ): Optional[InputStream] = {
    val body = context.responseBody
    GatewayCall.current(attributes).filter(_.open && body.isPresent).fold(body) { attempt =>
      GatewayCall.of(attributes).streams = true
      Optional.of(new ObservedBody(body.get, attempt))
    }
  }

  override def afterExecution(context: Context.AfterExecution, attributes: ExecutionAttributes): Unit = {
    val call = GatewayCall.of(attributes)
    if (!call.streams) call.current.foreach(_.finished(0))
  }

  override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
    GatewayCall.gaveUp(attributes, context.exception)
}

/** Decides as the client's own condition does; in passing it sees why an attempt without a response failed. */
@nowarn("cat=deprecation") // As long as S3A configures a RetryPolicy.
final private[gateways] class ObservedRetries(condition: RetryCondition) extends RetryCondition {

  override def shouldRetry(context: RetryPolicyContext): Boolean = {
    GatewayCall.gaveUp(context.executionAttributes, context.exception)
    condition.shouldRetry(context)
  }

  override def requestWillNotBeRetried(context: RetryPolicyContext): Unit = condition.requestWillNotBeRetried(context)

  override def requestSucceeded(context: RetryPolicyContext): Unit = condition.requestSucceeded(context)
}

/** A response's body, which keeps its attempt in flight until its end, its closing or its abortion. */
final private class ObservedBody(body: InputStream, attempt: Gateways.InFlight)
    extends FilterInputStream(body)
    with Abortable {
  private var bytes = 0L

  override def read(): Int = {
    val byte = observed(super.read())
    if (byte < 0) attempt.finished(bytes) else bytes += 1
    byte
  }

  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val count = observed(super.read(buffer, offset, length))
    if (count < 0) attempt.finished(bytes) else bytes += count
    count
  }

  override def skip(count: Long): Long = {
    val skipped = observed(super.skip(count))
    bytes += skipped
    skipped
  }

  override def close(): Unit =
    try super.close()
    finally attempt.finished(bytes)

  override def abort(): Unit =
    try
      body match {
        case abortable: Abortable => abortable.abort()
        case _ => ()
      }
    finally attempt.finished(bytes)

  private def observed[A](work: => A): A =
    try work
    catch {
      case error: IOException =>
        Failures.of(error) match {
          case Some(failure) => attempt.failed(failure)
          case None => attempt.finished(bytes)
        }
        throw error
    }
}

/** What responses and exceptions say about the gateway they came from. */
private[gateways] object Failures {

  /** None: the gateway did its work, whatever the store thinks of the request. */
  def of(response: SdkHttpResponse): Option[Failure] = response.statusCode match {
    case 503 | 429 =>
      val seconds = response.firstMatchingHeader("Retry-After").map[Option[Long]](_.toLongOption).orElse(None)
      Some(Failure.Overloaded(seconds.map(SECONDS.toNanos)))
    // What a server does not implement is no failure of it.
    case status if status >= 500 && status != 501 => Some(Failure.Broken)
    case _ => None
  }

  /** None: it was this side that gave up, or an answer that [[of(response*]] has judged already. */
  def of(error: Throwable): Option[Failure] =
    Iterator
      .iterate(error)(_.getCause)
      .takeWhile(_ != null)
      .take(Deepest)
      .map(judge)
      .collectFirst { case Some(verdict) =>
        verdict
      }
      .flatten

  private val Deepest = 16

  /**
   * None: look at the cause. Some(None): no failure of the gateway. By name where the HTTP client may be another one.
   */
  private def judge(error: Throwable): Option[Option[Failure]] = error match {
    case _: SdkServiceException | _: AbortedException | _: InterruptedException | _: CancellationException => Some(None)
    case _: ApiCallAttemptTimeoutException | _: ApiCallTimeoutException => Some(Some(Failure.Broken))
    case _ if error.getClass.getSimpleName == "ConnectionPoolTimeoutException" => Some(None)
    case _ if error.getClass.getSimpleName == "ConnectTimeoutException" => Some(Some(Failure.Unreachable))
    case _: SocketException | _: UnknownHostException | _: SSLException => Some(Some(Failure.Unreachable))
    case _: SocketTimeoutException => Some(Some(Failure.Broken))
    case _: InterruptedIOException => Some(None)
    case _: IOException => if (error.getCause == null) Some(Some(Failure.Broken)) else None
    case _ => None
  }
}
