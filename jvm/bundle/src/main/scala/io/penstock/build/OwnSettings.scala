package io.penstock.build

import org.apache.spark.penstock.Declared

import io.penstock.fs.cache.CacheSettings
import io.penstock.fs.commit.WriteBehind

/**
 * The settings of Penstock's own file system: the cache's with their kinds, others as the literals they are read by.
 */
object OwnSettings {

  private val Key = raw"fs\.s3a\.penstock(\.[a-z]+)+".r

  def declared(): Seq[Declared] = mentioned() ++ cache :+ Declared(WriteBehind.Size, "size", Some("0"))

  // A tier's size may be a percentage, which is no size to Hadoop.
  private val cache: Seq[Declared] = Seq(
    Declared(CacheSettings.Enabled, "boolean", Some("true")),
    Declared(CacheSettings.PageSize, "size", Some("1M")),
    Declared(CacheSettings.MemoryDirectory, "string"),
    Declared(CacheSettings.MemorySize, "string", Some("10%")),
    Declared(CacheSettings.DiskDirectory, "string"),
    Declared(CacheSettings.DiskSize, "string", Some("10%")),
    Declared(CacheSettings.Strict, "boolean", Some("false")),
    Declared(CacheSettings.WriteThrough, "boolean", Some("true")),
    Declared(CacheSettings.ReadAhead, "size", Some("32M")),
    Declared(CacheSettings.ReadOver, "size", Some("4M"))
  )

  private def mentioned(): Seq[Declared] = {
    val jar = CacheSettings.getClass.getProtectionDomain.getCodeSource.getLocation.getPath
    StringConstants.ofJar(jar).toSeq.collect { case key @ Key(_) => Declared(key, "string") }
  }
}
