package io.penstock.fs.credentials

import java.util.concurrent.atomic.AtomicLong

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import software.amazon.awssdk.auth.credentials.{AwsCredentials, AwsCredentialsProvider}
import software.amazon.awssdk.awscore.exception.AwsServiceException
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}

/**
 * The credentials of the file that `AWS_SHARED_CREDENTIALS_FILE` names, as it is now: whoever renews them replaces the
 * file, and every request from then on is signed with the new ones.
 * `fs.s3a.aws.credentials.provider=io.penstock.fs.credentials.RenewedCredentialsProvider`
 *
 * May be called by many threads at once.
 */
final class RenewedCredentialsProvider private[credentials] (
    file: CredentialsFile,
    clock: () => Long,
    pause: Long => Unit,
    refusals: () => Long
) extends AwsCredentialsProvider {
  import RenewedCredentialsProvider._

  /** The one S3A makes. */
  def this() = this(
    CredentialsFile.ofEnvironment(),
    () => System.currentTimeMillis(),
    Thread.sleep(_),
    () => RenewedCredentialsProvider.refused.get
  )

  private var held: Option[Held] = None
  private var lookedAt = 0L
  private var seenRefusals = 0L
  private var waitedFor: Option[Stamp] = None

  override def resolveCredentials(): AwsCredentials = synchronized {
    if (held.forall(Freshness.mustLook(_, clock(), lookedAt, doubted = refusals() != seenRefusals))) look()
    held.filter(Freshness.mustWait(_, clock(), waitedFor)).foreach(await)
    held.getOrElse(throw SdkClientException.create("There are no credentials")).credentials
  }

  private def look(): Unit = {
    seenRefusals = refusals()
    lookedAt = clock()
    if (!held.exists(_.stamp == file.stamp())) held = Some(file.read())
  }

  private def await(expired: Held): Unit = {
    val until = clock() + Freshness.WaitFor
    while (held.contains(expired) && clock() < until) {
      pause(PauseMs)
      look()
    }
    waitedFor = held.map(_.stamp)
  }
}

private[fs] object RenewedCredentialsProvider {

  private val PauseMs = 200L

  def isUsed(conf: Configuration): Boolean = conf
    .getTrimmedStrings(Constants.AWS_CREDENTIALS_PROVIDER)
    .contains(classOf[RenewedCredentialsProvider].getName)

  /** How often a store has refused credentials in this JVM. */
  private val refused = new AtomicLong

  private val Codes = Set("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken")

  /** Tells every provider of this JVM where a store refuses: by what Ceph says, expired is merely forbidden. */
  object Refusals extends ExecutionInterceptor {

    override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
      context.exception match {
        case error: AwsServiceException if error.statusCode == 403 || code(error).exists(Codes) =>
          refused.incrementAndGet()
        case _ => ()
      }

    private def code(error: AwsServiceException): Option[String] = Option(error.awsErrorDetails).map(_.errorCode)
  }
}
