package io.penstock.fs.commit

import io.penstock.fs.testing.{Requests, Store}

/**
 * What a commit costs: `mvn -f jvm/pom.xml test-compile exec:java -pl filesystem -Dexec.classpathScope=test
 * -Dexec.mainClass=io.penstock.fs.commit.CommitBench`, on the store that `PENSTOCK_TEST_S3_ENDPOINT` names.
 *
 * Prints for 1, 100 and 1000 files (or the numbers given), three times each: milliseconds of an append's commit and of
 * the commit that replaces it, and the requests of each.
 */
object CommitBench {

  def main(arguments: Array[String]): Unit = {
    val bucket = Store.newBucket()
    val conf = Store.conf()
    conf.set("fs.s3a.connection.maximum", "128")
    println("files  round  append_ms  overwrite_ms  append_requests  overwrite_requests")
    for {
      files <- if (arguments.isEmpty) Seq(1, 100, 1000) else arguments.toSeq.map(_.toInt)
      round <- 1 to 3
    } {
      val table = new WrittenTable(bucket, s"bench-$files-$round", conf)
      val directories = (1 to files).map(n => s"p=$n")
      val (append, appendRequests) = commit(table, directories, replace = false)
      val (overwrite, overwriteRequests) = commit(table, directories, replace = true)
      println(f"$files%5d  $round%5d  $append%9d  $overwrite%12d  $appendRequests%s  $overwriteRequests%s")
    }
  }

  private def commit(table: WrittenTable, directories: Seq[String], replace: Boolean): (Long, String) = {
    val id = table.newJob()
    val uploads = table.attempt(id, directories, "x").uploads
    val output = table.job(id)
    if (replace) output.replace(table.fs, table.path)
    val start = System.nanoTime
    val requests = Requests.during(output.commit(uploads))
    ((System.nanoTime - start) / 1000000, requests.toVector.sorted.map { case (kind, n) => s"$kind=$n" }.mkString(","))
  }
}
