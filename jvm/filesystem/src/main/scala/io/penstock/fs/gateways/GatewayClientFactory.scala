package io.penstock.fs.gateways

import scala.annotation.nowarn

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.S3ClientFactory.S3ClientCreationParameters
import org.apache.hadoop.fs.s3a.{Constants, DefaultS3ClientFactory}
import software.amazon.awssdk.auth.signer.AwsS3V4Signer
import software.amazon.awssdk.core.client.config.{ClientOverrideConfiguration, SdkAdvancedClientOption}

import io.penstock.fs.credentials.RenewedCredentialsProvider

/**
 * S3A's own clients, whose every attempt goes to the least loaded of many gateways:
 * `fs.s3a.s3.client.factory.impl=io.penstock.fs.gateways.GatewayClientFactory`.
 *
 * `fs.s3a.penstock.endpoints` lists the endpoints beside `fs.s3a.endpoint`, which stays the first of them. Over http
 * and with path-style access each address of a name is a gateway of its own; over https, where the certificate is for
 * the name, and with the bucket in the host's name, the name stays whole. With a single gateway nothing is added to
 * S3A's client.
 */
@nowarn("cat=deprecation") // As long as S3A itself configures a RetryPolicy and signers of this kind.
class GatewayClientFactory extends DefaultS3ClientFactory {

  override protected def createClientOverrideConfiguration(
      parameters: S3ClientCreationParameters,
      conf: Configuration
  ): ClientOverrideConfiguration.Builder = {
    val builder = super.createClientOverrideConfiguration(parameters, conf)
    if (RenewedCredentialsProvider.isUsed(conf)) builder.addExecutionInterceptor(RenewedCredentialsProvider.Refusals)
    val endpoints = GatewayClientFactory.endpoints(parameters.getEndpoint, conf)
    val scattered = parameters.isPathStyleAccess && endpoints.exists(_.scheme == "http")
    if (endpoints.isEmpty) return builder
    gateways(endpoints, scattered).fold(builder) { gateways =>
      // The one of the setting fs.s3a.signing-algorithm, or the client's default of this SDK.
      val signer = Option(builder.advancedOptions.get(SdkAdvancedClientOption.SIGNER)).getOrElse(AwsS3V4Signer.create())
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
