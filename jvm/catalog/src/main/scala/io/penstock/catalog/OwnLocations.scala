package io.penstock.catalog

import java.util

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.iceberg.catalog.{Namespace, SupportsNamespaces}
import org.apache.iceberg.exceptions.{ForbiddenException, NoSuchNamespaceException}
import org.apache.iceberg.io.{FileIO, InputFile, OutputFile}
import org.apache.iceberg.view.ViewProperties
import org.apache.iceberg.{TableMetadata, TableProperties}

/**
 * The rule by which clients of the REST catalog name locations: within that of the table's own namespace, and neither
 * in nor around another one's. The catalog writes and deletes with credentials for everything, so a location that it
 * believed would be the way into another's files.
 */
private[catalog] final class OwnLocations(catalog: SupportsNamespaces) {

  /** @throws ForbiddenException for the first location that lies outside of the namespace, or around another one */
  def check(namespace: Namespace, named: Seq[String]): Unit =
    named.find(!allows(namespace, _)).foreach { location =>
      throw new ForbiddenException(
        "The location %s is not within the namespace's own, %s, or has another namespace's files",
        location,
        locationOf(namespace).getOrElse("which it has none")
      )
    }

  def allows(namespace: Namespace, location: String): Boolean = {
    val own = locationOf(namespace)
    lazy val others = locationsBeside(namespace)
    // The namespace `default` lies around the others.
    def inner = others.filter(other => own.exists(OwnLocations.within(_, other)))
    own.exists(OwnLocations.within(_, location)) &&
    !inner.exists(OwnLocations.within(_, location)) &&
    !others.exists(OwnLocations.within(location, _))
  }

  /**
   * Whether all files of a table lie at its location, and nothing of another namespace does. Tables made of another
   * one's files (`system.snapshot`) have files elsewhere.
   */
  def holdsAllOf(namespace: Namespace, table: TableMetadata): Boolean =
    allows(namespace, table.location) &&
      OwnLocations.Properties.forall(name =>
        Option(table.properties.get(name)).forall(OwnLocations.within(table.location, _))
      ) &&
      !table.propertyAsBoolean("snapshot", false)

  private def locationsBeside(namespace: Namespace): Seq[String] =
    catalog.listNamespaces.asScala.toSeq.filter(_ != namespace).flatMap { other =>
      try locationOf(other)
      catch { case _: NoSuchNamespaceException => None } // Another client drops namespaces meanwhile.
    }

  private def locationOf(namespace: Namespace): Option[String] =
    Option(catalog.loadNamespaceMetadata(namespace).get("location"))
}

private[catalog] object OwnLocations {

  /** Properties by which a table or a view has its files written elsewhere than at its location. */
  val Properties = Seq(
    TableProperties.WRITE_DATA_LOCATION,
    TableProperties.WRITE_METADATA_LOCATION,
    // Names of earlier releases of Iceberg, which other engines may still follow.
    "write.object-storage.path",
    "write.folder-storage.path",
    ViewProperties.WRITE_METADATA_LOCATION
  ).distinct

  /** Whether `inner` is `outer` or lies in it, whatever `..` either has. */
  def within(outer: String, inner: String): Boolean = {
    val ancestors = Iterator.iterate(normal(inner))(_.getParent).takeWhile(_ != null)
    ancestors.contains(normal(outer))
  }

  private def normal(location: String): Path = new Path(new Path(location).toUri.normalize)
}

/** A table's files, of which only those at `location` can be deleted: its metadata may name any. */
private[catalog] final class DeletesWithin(files: FileIO, location: String) extends FileIO {
  override def newInputFile(path: String): InputFile = files.newInputFile(path)
  override def newOutputFile(path: String): OutputFile = files.newOutputFile(path)
  override def deleteFile(path: String): Unit = if (OwnLocations.within(location, path)) files.deleteFile(path)
  override def properties(): util.Map[String, String] = files.properties()
}
