package io.penstock.fs.commit

import java.net.InetAddress
import java.util.Date

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.s3a.commit.CommitConstants
import org.apache.hadoop.fs.s3a.commit.files.SuccessData

/** `_SUCCESS` in the form of S3A's own committers, which tools read. */
private[commit] object SuccessMarker {

  val Committer = "penstock"

  def content(job: String, uploads: Vector[Upload]): Array[Byte] = {
    val now = new Date
    val data = new SuccessData
    data.setCommitter(Committer)
    data.setJobId(job)
    data.setTimestamp(now.getTime)
    data.setDate(now.toString)
    data.setHostname(InetAddress.getLocalHost.getHostName)
    data.setDescription(s"${uploads.size} files")
    data.setFilenames(
      uploads.iterator.take(CommitConstants.SUCCESS_MARKER_FILE_LIMIT).map("/" + _.key).toList.asJava
    )
    data.setSuccess(true)
    data.toBytes(SuccessData.serializer())
  }
}
