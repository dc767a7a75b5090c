package io.penstock.fs.commit

/** What attempts of a job that did not make it into its commit have left: uploads that nobody will complete. */
private[commit] object Leftovers {

  /** Aborts every upload of the job below these places. Spark has put the job's id into each file's name. */
  def abort(buckets: Buckets, parallel: Parallel, job: String, places: Seq[Location]): Int = {
    val found = places.flatMap { place =>
      val bucket = buckets(place.bucket)
      bucket.uploads(place.key).filter(upload => belongsTo(job, upload.key)).map(bucket -> _)
    }
    parallel.map(found) { case (bucket, upload) => bucket.abort(upload.key, upload.id) }
    found.size
  }

  def belongsTo(job: String, key: String): Boolean = key.substring(key.lastIndexOf('/') + 1).contains(job)
}
