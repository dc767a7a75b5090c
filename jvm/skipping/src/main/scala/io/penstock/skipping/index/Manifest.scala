package io.penstock.skipping.index

import java.io.IOException

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.{DeserializationFeature, ObjectMapper}
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.sql.types.DataType

import io.penstock.skipping.model.{Domain, IndexedColumn}

/**
 * The content of an index, and its one object that is ever replaced: a part that it does not name is not part of the
 * index.
 *
 * @param format
 *   the version of the format, which rises when older readers would misunderstand it
 * @param id
 *   unique among all manifests that were ever written
 * @param root
 *   the table's root; an index that was copied elsewhere is unusable
 * @param parts
 *   the later part wins where two have the same file
 * @param superseded
 *   parts of former manifests, which someone may still be reading
 * @param leftOut
 *   the columns that are not covered
 */
private[skipping] case class Manifest(
    format: Int,
    id: String,
    root: String,
    columns: Vector[Manifest.Column],
    leftOut: Vector[LeftOut],
    parts: Vector[Manifest.Part],
    superseded: Vector[Manifest.Superseded]
) {

  def plan: Seq[PlannedColumn] = columns.map { column =>
    val indexed = IndexedColumn(column.name, DataType.fromJson(column.dataType))
    PlannedColumn(indexed, column.kinds.map(Kind.of).toSet, column.why, column.asked)
  }
}

/** A column that an index does not cover, and the reason. */
case class LeftOut(name: String, why: String)

private[skipping] object Manifest {

  /** In 1, files that were read at once shared a decompressor: one may have got into another's values. */
  val Format = 2

  /** `dataType`: Spark's JSON for it. `asked`: see [[PlannedColumn]]. */
  case class Column(name: String, dataType: String, kinds: Vector[String], why: String, asked: Option[Double])

  /** A Parquet file of [[FileEntry]] rows. */
  case class Part(name: String, bytes: Long, entries: Long)

  /** @param since milliseconds since 1970, by the clock of the driver that wrote the manifest */
  case class Superseded(name: String, since: Long)

  def columns(plan: Seq[PlannedColumn]): Vector[Column] = plan.iterator.map { planned =>
    val kinds = Kind.all.filter(planned.kinds).map(_.name).toVector
    Column(planned.column.name, planned.column.dataType.json, kinds, planned.why, planned.asked)
  }.toVector

  private val json: ObjectMapper = JsonMapper
    .builder()
    .addModule(DefaultScalaModule)
    .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
    .configure(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES, true)
    .build()

  def write(manifest: Manifest): Array[Byte] =
    json.writerWithDefaultPrettyPrinter().writeValueAsBytes(manifest)

  /** Parse a manifest. Throws an [[IndexDamage]] where it is none, or one of another version or table. */
  def read(content: Array[Byte], root: String): Manifest = {
    def damage(what: String, cause: Throwable = null): Nothing =
      throw new IndexDamage(s"$what: build it anew to use one", cause)
    try {
      // The version first: a later one may differ in everything else.
      val tree = json.readTree(content)
      val format = tree.path("format").asInt(-1)
      if (format < 1) damage("has no manifest that can be read")
      if (format < Format)
        damage(s"was written by a version of Penstock that may have noted the values of another file (format $format)")
      if (format > Format)
        damage(s"was written by a later version of Penstock (format $format, this one reads $Format)")
      val manifest = json.treeToValue(tree, classOf[Manifest])
      if (manifest.root != root) damage(s"belongs to another table, ${manifest.root}")
      manifest.plan.foreach { planned =>
        if (Domain.of(planned.column.dataType).isEmpty) damage(s"covers ${planned.column.name} of an unknown type")
      }
      manifest
    } catch {
      case e: IndexDamage => throw e
      case NonFatal(e) => damage("has no manifest that can be read", e)
    }
  }
}

/** An index that is unusable and must be built again. */
private[skipping] class IndexDamage(message: String, cause: Throwable = null) extends IOException(message, cause)

/** The manifests that follow a given one. Pure functions. */
private[skipping] object NextManifest {

  /** The time after which nobody reads the parts of a superseded manifest, in milliseconds. */
  val GraceMs: Long = 60 * 60 * 1000

  /** The manifest of an index of these parts alone. */
  def anew(
      id: String,
      root: String,
      plan: Seq[PlannedColumn],
      leftOut: Seq[LeftOut],
      parts: Vector[Manifest.Part],
      former: Option[Manifest],
      now: Long
  ): Manifest = {
    val superseded = former.toVector.flatMap(manifest => discard(manifest, manifest.parts.map(_.name), now))
    Manifest(Manifest.Format, id, root, Manifest.columns(plan), leftOut.toVector, parts, superseded)
  }

  /**
   * The manifest with the changes of a writer that started from `base`, on top of the latest one: the parts of another
   * writer that published in between stay, since they are as correct. None where the index was dropped meanwhile, or
   * built again with other columns.
   */
  def onTop(
      id: String,
      base: Manifest,
      latest: Option[Manifest],
      added: Vector[Manifest.Part],
      dropped: Set[String],
      now: Long
  ): Option[Manifest] = latest.filter(_.columns == base.columns).map { manifest =>
    val kept = manifest.parts.filterNot(part => dropped(part.name))
    val gone = manifest.parts.map(_.name).filter(dropped)
    manifest.copy(id = id, parts = kept ++ added, superseded = discard(manifest, gone, now))
  }

  /** Parts that no reader needs, neither of this manifest nor of one that was superseded within the grace period. */
  def removable(next: Manifest, latest: Option[Manifest]): Set[String] = {
    val needed = (next.parts.map(_.name) ++ next.superseded.map(_.name)).toSet
    latest.toSet.flatMap((manifest: Manifest) => manifest.superseded.map(_.name)).diff(needed)
  }

  private def discard(manifest: Manifest, names: Seq[String], now: Long): Vector[Manifest.Superseded] =
    manifest.superseded.filter(_.since > now - GraceMs) ++ names.map(Manifest.Superseded(_, now))
}
