package io.penstock.fs.gateways

import scala.annotation.nowarn

import software.amazon.awssdk.core.CredentialType
import software.amazon.awssdk.core.interceptor.ExecutionAttributes
import software.amazon.awssdk.core.signer.Signer
import software.amazon.awssdk.http.{SdkHttpFullRequest, SdkHttpMethod}

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

private object GatewaySigner {
  private val BodyLess = Set(SdkHttpMethod.GET, SdkHttpMethod.HEAD, SdkHttpMethod.DELETE)
}
