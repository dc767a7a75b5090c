package io.penstock.fs.credentials

import java.io.IOException
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsSessionCredentials}
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.profiles.ProfileFile

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
