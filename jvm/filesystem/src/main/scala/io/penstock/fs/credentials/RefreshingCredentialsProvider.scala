package io.penstock.fs.credentials

import java.io.IOException
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants
import software.amazon.awssdk.auth.credentials.{
  AwsBasicCredentials,
  AwsCredentials,
  AwsCredentialsProvider,
  AwsSessionCredentials
}
import software.amazon.awssdk.awscore.exception.AwsServiceException
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.profiles.ProfileFile

/**
 * The credentials of the file that `AWS_SHARED_CREDENTIALS_FILE` names, as it is now: whoever renews them replaces the
 * file, and every request from then on is signed with the new ones.
 * `fs.s3a.aws.credentials.provider=io.penstock.fs.credentials.RefreshingCredentialsProvider`
 *
 * May be called by many threads at once.
 */
final class RefreshingCredentialsProvider private[credentials] (
    file: CredentialsFile,
    clock: () => Long,
    pause: Long => Unit,
    refusals: () => Long
) extends AwsCredentialsProvider {
  import RefreshingCredentialsProvider._

  /** The one S3A makes. */
  def this() = this(
    CredentialsFile.ofEnvironment(),
    () => System.currentTimeMillis(),
    Thread.sleep(_),
    () => RefreshingCredentialsProvider.refused.get
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

private[fs] object RefreshingCredentialsProvider {

  private val PauseMs = 200L

  def isUsed(conf: Configuration): Boolean = conf
    .getTrimmedStrings(Constants.AWS_CREDENTIALS_PROVIDER)
    .contains(classOf[RefreshingCredentialsProvider].getName)

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

/** One profile of an AWS credentials file. */
final private[fs] class CredentialsFile(path: Path, profile: String) {

  /** The access key's name, which is no secret; none where the file has none. Throws where it cannot be read. */
  def accessKey: Option[String] = Option(read().credentials.accessKeyId)

  private[credentials] def stamp(): Stamp = naming {
    val seen = Files.readAttributes(path, classOf[BasicFileAttributes])
    Stamp(String.valueOf(seen.fileKey), seen.lastModifiedTime.toMillis, seen.size)
  }

  /** Of two replacements while it reads the newer is found by the next look: the stamp is taken first. */
  private[credentials] def read(): Held = naming {
    val taken = stamp()
    val file = ProfileFile.builder.content(path).`type`(ProfileFile.Type.CREDENTIALS).build()
    val values = file.profile(profile).map[Map[String, String]](_.properties.asScala.toMap).orElse(Map.empty)
    Held(credentials(values), values.get("expires_at").flatMap(_.toDoubleOption).map(s => (s * 1000).toLong), taken)
  }

  private def credentials(values: Map[String, String]): AwsCredentials =
    (values.get("aws_access_key_id"), values.get("aws_secret_access_key"), values.get("aws_session_token")) match {
      case (Some(key), Some(secret), Some(token)) => AwsSessionCredentials.create(key, secret, token)
      case (Some(key), Some(secret), None) => AwsBasicCredentials.create(key, secret)
      case _ => throw SdkClientException.create(s"$path has no keys in its profile [$profile]")
    }

  private def naming[A](work: => A): A =
    try work
    catch { case error: IOException => throw SdkClientException.create(s"$path cannot be read: $error", error) }
}

private[fs] object CredentialsFile {

  /** As AWS's own clients find it. */
  def ofEnvironment(environment: Map[String, String] = sys.env): CredentialsFile = {
    def home = Paths.get(System.getProperty("user.home"), ".aws", "credentials")
    val path = environment.get("AWS_SHARED_CREDENTIALS_FILE").fold(home)(Paths.get(_))
    new CredentialsFile(path, environment.getOrElse("AWS_PROFILE", "default"))
  }
}

/**
 * What was last read from the file.
 *
 * @param expiresAt
 *   in milliseconds since the epoch; none: they do not end
 * @param stamp
 *   tells this content of the file from any other
 */
final private[credentials] case class Held(credentials: AwsCredentials, expiresAt: Option[Long], stamp: Stamp) {

  def expired(now: Long): Boolean = expiresAt.exists(_ <= now)
}

/** A file that is replaced, and never written to, has another inode or another time of change. */
final private[credentials] case class Stamp(file: AnyRef, modified: Long, size: Long)

/** When to look at the file again, and whether to wait for another one. All times in milliseconds. */
private[credentials] object Freshness {

  /** A look a second costs the requests between nothing; what is replaced at half time is found long before its end. */
  val LookEvery = 1000L

  /**
   * How long a request waits for those who renew: a restart of the engine, or a store that issues none for a moment.
   */
  val WaitFor = 30000L

  /**
   * @param lookedAt
   *   when the file was last looked at
   * @param doubted
   *   whether the store has refused what is held since then
   */
  def mustLook(held: Held, now: Long, lookedAt: Long, doubted: Boolean): Boolean =
    doubted || now - lookedAt >= LookEvery || now < lookedAt || held.expired(now)

  /**
   * Expired credentials are waited for once. Should nobody renew them, they are tried all the same: the store's clock
   * is the one that counts, and its refusal says more than ours.
   */
  def mustWait(held: Held, now: Long, waitedFor: Option[Stamp]): Boolean =
    held.expired(now) && !waitedFor.contains(held.stamp)
}
