package io.penstock.workloads.terasort

import scala.collection.immutable.ListMap

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession

import io.penstock.workloads.{Application, Arguments, Manifest, Report, UsageError}

/**
 * TeraGen: the first records of the sort benchmark, in files of the object size, with a manifest that says how many
 * they are and what their check sums come to.
 *
 * What is at `--location` is replaced. A generation that was cut short leaves no manifest.
 */
object Generate extends Application {

  private val usage = "Generate --records N --location URI --report URI [--object-size 128m] [--skewed true|false]"
  private val known = Set("records", "location", "report", "object-size", "skewed")

  override def run(arguments: Seq[String]): Int = {
    val options = Arguments.parse(arguments, known, usage)
    options.required("records")
    val records = options.long("records", default = 1, atLeast = 1)
    val location = options.required("location").stripSuffix("/")
    val objectBytes = options.size("object-size", "128m")
    val skewed = options.read("skewed", "true or false")(_.toBooleanOption).getOrElse(false)
    if (objectBytes < Record.Bytes)
      throw new UsageError(s"--object-size is less than a record of ${Record.Bytes} bytes.")
    val report = options.required("report")

    val spark = SparkSession.builder().appName(s"TeraGen, $records records").getOrCreate()
    val context = spark.sparkContext
    Report.to(report, context.hadoopConfiguration) { report =>
      val manifest = new Manifest(location, context.hadoopConfiguration)
      val (tally, elapsed) = report.timed(generate(context, location, records, objectBytes / Record.Bytes, skewed))
      manifest.write(
        DataSet.describe(tally, ListMap("object_size" -> objectBytes, "skewed" -> skewed, "spark" -> spark.version))
      )
      report.measure("generate", elapsed, records * Record.Bytes, records)
    }
    spark.stop()
    0
  }

  private def generate(context: SparkContext, location: String, records: Long, each: Long, skewed: Boolean): Tally = {
    val path = new Path(location)
    val _ = path.getFileSystem(context.hadoopConfiguration).delete(path, true)
    val sum = new TallyAccumulator
    context.register(sum)
    val objects = ((records + each - 1) / each).toInt
    val blocks = context.parallelize(0 until objects, objects).map { index =>
      val first = index * each
      // The sum is made while the block is written, which is in the action, where Spark counts each task once.
      new Generated(new RecordGenerator(skewed), first, math.min(each, records - first), sum.add): RecordBlock
    }
    RecordOutputFormat.save(blocks, location)
    sum.value
  }
}
