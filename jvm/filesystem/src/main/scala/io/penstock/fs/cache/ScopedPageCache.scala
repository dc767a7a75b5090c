package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.HexFormat

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.s3a.Constants

import io.penstock.fs.CacheSettings
import io.penstock.fs.credentials.CredentialsFile

/**
 * The pages of those who have one set of credentials: what one of them may read, the store may refuse to another, and
 * nobody asks it about a page that is here.
 */
private[cache] final class ScopedPageCache(pages: PageCache, scope: String) extends PageCache {

  private def in(of: ObjectIdentity): ObjectIdentity = of.scoped(scope)

  override def pageSize: Int = pages.pageSize
  override def keeps: Boolean = pages.keeps
  override def roomForScan: Long = pages.roomForScan
  override def find(of: ObjectIdentity, index: Long): Option[Page] = pages.find(in(of), index)
  override def has(of: ObjectIdentity, index: Long): Boolean = pages.has(in(of), index)
  override def claim(of: ObjectIdentity, index: Long, patienceMs: Long): Claim = pages.claim(in(of), index, patienceMs)
  override def fetched(bytes: Long, nanos: Long): Unit = pages.fetched(bytes, nanos)
  override def answered(nanos: Long): Unit = pages.answered(nanos)
  override def admits(of: ObjectIdentity, first: Long, last: Long, wanted: Long, request: Long): Boolean =
    pages.admits(in(of), first, last, wanted, request)
  override def passed(of: ObjectIdentity, index: Long): Unit = pages.passed(in(of), index)
  override def keep(of: ObjectIdentity, index: Long, data: ByteBuffer): Unit = pages.keep(in(of), index, data)
  override def rename(from: ObjectIdentity, fromIndex: Long, to: ObjectIdentity, toIndex: Long): Unit =
    pages.rename(in(from), fromIndex, in(to), toIndex)
  override def forget(of: ObjectIdentity): Unit = pages.forget(in(of))
}

private[cache] object ScopedPageCache {

  /**
   * What tells these settings' credentials from others, and nothing about them: a part of a hash of the access key's
   * name, or of [[CacheSettings.Scope]] where that is set, as for credentials that are renewed.
   */
  def scopeOf(conf: Configuration, environment: Map[String, String] = sys.env): String = {
    def profile = Try(CredentialsFile.ofEnvironment(environment).accessKey).toOption.flatten
    val credentials = Option(conf.getTrimmed(CacheSettings.Scope)).filter(_.nonEmpty).map("scope " + _) orElse
      Option(conf.getTrimmed(Constants.ACCESS_KEY)).filter(_.nonEmpty).map("key " + _) orElse
      environment.get("AWS_ACCESS_KEY_ID").map("key " + _) orElse
      profile.map("key " + _)
    val digest = MessageDigest.getInstance("SHA-256").digest(("penstock " + credentials.getOrElse("")).getBytes(UTF_8))
    HexFormat.of().formatHex(digest, 0, 8)
  }
}
