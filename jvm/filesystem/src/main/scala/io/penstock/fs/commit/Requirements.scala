package io.penstock.fs.commit

import java.io.IOException

import org.apache.hadoop.fs.s3a.S3AFileSystem
import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.{FileSystem, Path}

/** What must hold for a job to be committed as a whole, told before the job does any work. */
private[commit] object Requirements {

  def check(fs: S3AFileSystem): Unit = {
    val conf = fs.getConf
    def require(setting: String, default: Boolean, why: String): Unit =
      if (!conf.getBoolean(setting, default))
        throw new IOException(
          s"Nothing can be written to s3a://${fs.getBucket}/: $setting is false, and $why. " +
            s"Set spark.hadoop.$setting=true, or another spark.sql.sources.commitProtocolClass"
        )
    require(
      CommitConstants.MAGIC_COMMITTER_ENABLED,
      CommitConstants.DEFAULT_MAGIC_COMMITTER_ENABLED,
      "without it S3A would store files under their temporary names"
    )
    require(
      CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED,
      CommitConstants.FS_S3A_COMMITTER_MAGIC_TRACK_COMMITS_IN_MEMORY_ENABLED_DEFAULT,
      "Penstock's commit takes what tasks have uploaded from there"
    )
  }

  /** A partition elsewhere must be of a file system that can hold its files back until the job is decided. */
  def checkSameKind(table: Path, partition: Path, fs: FileSystem): Unit = fs match {
    case s3a: S3AFileSystem => check(s3a)
    case _ =>
      throw new IOException(
        s"The partition at $partition cannot be written together with the table $table: files there cannot appear in " +
          "the same instant. Write it on its own, or give it a location on S3A"
      )
  }
}
