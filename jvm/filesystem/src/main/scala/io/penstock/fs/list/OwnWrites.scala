package io.penstock.fs.list

import java.util.concurrent.ConcurrentHashMap
import java.util.{Collections, Set => JavaSet, WeakHashMap}

import scala.jdk.CollectionConverters._

import software.amazon.awssdk.core.SdkRequest
import software.amazon.awssdk.core.interceptor.{Context, ExecutionAttributes, ExecutionInterceptor}
import software.amazon.awssdk.services.s3.model._

/**
 * Sees every request by which this process changes a bucket, whoever sends it, and has what was listed ahead of it be
 * forgotten: `fs.s3a.audit.execution.interceptors=io.penstock.fs.list.OwnWrites`. [[io.penstock.fs.PenstockFileSystem]]
 * brings it along.
 */
class OwnWrites extends ExecutionInterceptor {

  override def afterExecution(context: Context.AfterExecution, attributes: ExecutionAttributes): Unit =
    OwnWrites.sent(context.request)

  /** What nobody answered may have been done all the same. */
  override def onExecutionFailure(context: Context.FailedExecution, attributes: ExecutionAttributes): Unit =
    OwnWrites.sent(context.request)
}

private[fs] object OwnWrites {

  /** Who lists a bucket ahead; those that nobody uses any more go away by themselves. */
  private val listers = new ConcurrentHashMap[String, JavaSet[ListAhead]]

  /** From now on this lister hears of changes to the bucket. */
  def tell(bucket: String, lister: ListAhead): Unit = {
    val listening = listers.computeIfAbsent(bucket, _ => Collections.newSetFromMap(new WeakHashMap))
    listening.synchronized(listening.add(lister)): Unit
  }

  private def sent(request: SdkRequest): Unit = request match {
    case put: PutObjectRequest => changed(put.bucket, Seq(put.key))
    case done: CompleteMultipartUploadRequest => changed(done.bucket, Seq(done.key))
    case copy: CopyObjectRequest => changed(copy.destinationBucket, Seq(copy.destinationKey))
    case one: DeleteObjectRequest => changed(one.bucket, Seq(one.key))
    case many: DeleteObjectsRequest => changed(many.bucket, many.delete.objects.asScala.map(_.key).toSeq)
    case _ => ()
  }

  private def changed(bucket: String, keys: Seq[String]): Unit =
    Option(listers.get(bucket)).foreach { listening =>
      val now = listening.synchronized(listening.asScala.toVector)
      for (lister <- now; key <- keys) lister.changed(key)
    }
}
