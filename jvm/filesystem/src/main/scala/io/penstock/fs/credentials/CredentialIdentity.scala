package io.penstock.fs.credentials

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.auth.delegation.DelegationConstants
import org.apache.hadoop.fs.s3a.auth.{CredentialProviderListFactory, ProfileAWSCredentialsProvider}
import org.apache.hadoop.fs.s3a.{
  AnonymousAWSCredentialsProvider,
  Constants,
  S3AUtils,
  SimpleAWSCredentialsProvider,
  TemporaryAWSCredentialsProvider
}
import software.amazon.awssdk.auth.credentials.{
  AnonymousCredentialsProvider,
  EnvironmentVariableCredentialsProvider,
  ProfileCredentialsProvider
}
import software.amazon.awssdk.profiles.ProfileFile

/** As whom S3A signs its requests to a bucket, without a request of its own. */
private[fs] object CredentialIdentity {

  /**
   * A name for all who have the same access key, or for all who have none. S3A's sources of credentials are followed in
   * its order, up to the first that has any. None where that is a source whose answer only a request or its own code
   * can give (roles, a machine's or a container's identity, delegation tokens, a program), or where reading it fails.
   *
   * @param conf
   *   the bucket's, as S3A has completed it: its own settings are in place of the general ones
   */
  def of(conf: Configuration, bucket: String, environment: Map[String, String] = sys.env): Option[String] =
    if (usesTokens(conf) || isRemapped(conf)) None
    else {
      val hadoop = new HadoopKeys(conf, bucket)
      val found = providers(conf).iterator.map(ask(_, conf, hadoop, environment)).find(_ != Absent)
      found.collect { case Identity(name) => name }
    }

  sealed private trait Answer

  /** S3A asks the next source. */
  private case object Absent extends Answer

  private case object Unknown extends Answer
  final private case class Identity(name: String) extends Answer

  private def key(accessKey: String): Answer = Identity(s"key $accessKey")

  private def usesTokens(conf: Configuration) =
    conf.getTrimmed(DelegationConstants.DELEGATION_TOKEN_BINDING, "").nonEmpty

  /** Whether classes are asked in place of those that the setting names. */
  private def isRemapped(conf: Configuration) = conf.getTrimmed(Constants.AWS_CREDENTIALS_PROVIDER_MAPPING, "").nonEmpty

  private def providers(conf: Configuration): Seq[String] =
    if (conf.get(Constants.AWS_CREDENTIALS_PROVIDER) != null)
      conf.getTrimmedStrings(Constants.AWS_CREDENTIALS_PROVIDER).toSeq
    else CredentialProviderListFactory.STANDARD_AWS_PROVIDERS.asScala.map(_.getName).toSeq

  private val Temporary = classOf[TemporaryAWSCredentialsProvider].getName
  private val Simple = classOf[SimpleAWSCredentialsProvider].getName
  private val HadoopsProfile = classOf[ProfileAWSCredentialsProvider].getName
  private val Refreshing = classOf[RefreshingCredentialsProvider].getName

  // S3A takes the names of the AWS SDK's first version for those of its second.
  private val Anonymous = Set(
    classOf[AnonymousAWSCredentialsProvider].getName,
    classOf[AnonymousCredentialsProvider].getName,
    CredentialProviderListFactory.ANONYMOUS_CREDENTIALS_V1
  )

  private val Environment = Set(
    classOf[EnvironmentVariableCredentialsProvider].getName,
    CredentialProviderListFactory.ENVIRONMENT_CREDENTIALS_V1
  )

  private val Profile =
    Set(classOf[ProfileCredentialsProvider].getName, CredentialProviderListFactory.PROFILE_CREDENTIALS_V1)

  private def ask(
      provider: String,
      conf: Configuration,
      hadoop: HadoopKeys,
      environment: Map[String, String]
  ): Answer =
    try
      provider match {
        case Temporary => if (hadoop.token.isEmpty) Absent else hadoop.identity
        case Simple => hadoop.identity
        case Refreshing => CredentialsFile.ofEnvironment(environment).accessKey.fold[Answer](Unknown)(key)
        case HadoopsProfile => profile(hadoopsFile(conf, environment), hadoopsProfile(conf, environment))
        case name if Environment(name) => ofVariables(environment)
        case name if Profile(name) => profile(sharedFiles(environment), sharedProfile(environment))
        case name if Anonymous(name) => Identity("anonymous")
        case _ => Unknown
      }
    catch { case NonFatal(_) => Unknown }

  /** What Hadoop's settings and its credential providers (`hadoop.security.credential.provider.path`) have. */
  final private class HadoopKeys(conf: Configuration, bucket: String) {

    lazy val token: String = look(Constants.SESSION_TOKEN)

    lazy val identity: Answer = {
      val name = look(Constants.ACCESS_KEY)
      if (name.isEmpty || look(Constants.SECRET_KEY).isEmpty) Absent else key(name)
    }

    private def look(setting: String): String = S3AUtils.lookupPassword(bucket, conf, setting)
  }

  private def ofVariables(environment: Map[String, String]): Answer = {
    def variable(name: String) = environment.get(name).map(_.trim).filter(_.nonEmpty)
    if (variable("AWS_SECRET_ACCESS_KEY").isEmpty) Absent else variable("AWS_ACCESS_KEY_ID").fold[Answer](Absent)(key)
  }

  private def hadoopsFile(conf: Configuration, environment: Map[String, String]): Seq[(Path, ProfileFile.Type)] = {
    def home = Paths.get(System.getProperty("user.home"), ".aws", "credentials").toString
    val file = conf.get("fs.s3a.auth.profile.file", environment.getOrElse("AWS_SHARED_CREDENTIALS_FILE", home))
    Seq(Paths.get(file) -> ProfileFile.Type.CREDENTIALS)
  }

  private def hadoopsProfile(conf: Configuration, environment: Map[String, String]): String =
    conf.get("fs.s3a.auth.profile.name", environment.getOrElse("AWS_PROFILE", "default"))

  /** The files of AWS's own clients, in their order. */
  private def sharedFiles(environment: Map[String, String]): Seq[(Path, ProfileFile.Type)] = {
    val home = environment.getOrElse("HOME", System.getProperty("user.home"))
    def file(property: String, variable: String, name: String) =
      Paths.get(setting(environment, property, variable).getOrElse(Paths.get(home, ".aws", name).toString))
    Seq(
      file("aws.sharedCredentialsFile", "AWS_SHARED_CREDENTIALS_FILE", "credentials") -> ProfileFile.Type.CREDENTIALS,
      file("aws.configFile", "AWS_CONFIG_FILE", "config") -> ProfileFile.Type.CONFIGURATION
    ).filter { case (path, _) => Files.isRegularFile(path) }
  }

  private def sharedProfile(environment: Map[String, String]): String =
    setting(environment, "aws.profile", "AWS_PROFILE").getOrElse("default")

  private def setting(environment: Map[String, String], property: String, variable: String): Option[String] =
    sys.props.get(property) orElse environment.get(variable)

  /** A profile's own access key; unknown where the profile names a role, a single sign-on or a program. */
  private def profile(files: Seq[(Path, ProfileFile.Type)], name: String): Answer = {
    val all = ProfileFile.aggregator()
    for ((path, form) <- files) all.addFile(ProfileFile.builder.content(path).`type`(form).build())
    val properties = all.build().profile(name).map[Map[String, String]](_.properties.asScala.toMap).orElse(Map.empty)
    val isKey = !properties.keys.exists(name => Elsewhere.exists(name.startsWith))
    properties.get("aws_access_key_id").filter(_ => isKey).fold[Answer](Unknown)(key)
  }

  private val Elsewhere =
    Seq("role_arn", "source_profile", "credential_source", "credential_process", "web_identity_token_file", "sso_")
}
