package io.penstock.catalog

import java.util
import java.util.Locale
import java.util.concurrent.Semaphore

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.iceberg.catalog.{Namespace, SupportsNamespaces, TableIdentifier}
import org.apache.iceberg.exceptions._
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode
import org.apache.iceberg.rest._
import org.apache.iceberg.rest.requests._
import org.apache.iceberg.rest.responses.{ConfigResponse, ErrorResponse, LoadTableResponse}
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.{JsonAutoDetect, PropertyAccessor}
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonProcessingException
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.{
  DeserializationFeature,
  ObjectMapper,
  PropertyNamingStrategies
}
import org.apache.iceberg.view.BaseMetastoreViewCatalog
import org.apache.iceberg.{BaseTable, CatalogUtil, MetadataUpdate, TableProperties, UpdateRequirement}

/**
 * Iceberg's REST catalog protocol over the Hive metastore, in which its tables lie beside all others.
 *
 * Each operation that the protocol names is one of Iceberg's own `CatalogHandlers`; what is not here is not offered,
 * and the configuration that a client asks for first says so. Whether a caller may do what it asks is decided before it
 * is asked here. Nothing is kept between two requests, so a process of this kind may be killed at any moment. Lists
 * come whole, as the protocol allows: Iceberg's handlers count pages by position, which loses a name when another is
 * dropped.
 */
private[catalog] final class IcebergRoutes(catalog: BaseMetastoreViewCatalog with SupportsNamespaces) {
  import IcebergRoutes._

  private val locations = new OwnLocations(catalog)

  private val purges = new Semaphore(MostPurges)

  private type Handler = RestCall => Option[RESTResponse]

  private val handlers: Seq[(Endpoint, Handler)] = Seq(
    Endpoint.V1_LIST_NAMESPACES -> answer(call => CatalogHandlers.listNamespaces(catalog, call.parent)),
    Endpoint.V1_CREATE_NAMESPACE -> answer { call =>
      val request = call.namespaceToCreate
      refuseNamespaceLocation(request.properties.keySet.asScala)
      CatalogHandlers.createNamespace(catalog, request)
    },
    Endpoint.V1_LOAD_NAMESPACE -> answer(call => CatalogHandlers.loadNamespace(catalog, call.namespace)),
    Endpoint.V1_NAMESPACE_EXISTS -> done(call => CatalogHandlers.namespaceExists(catalog, call.namespace)),
    Endpoint.V1_DELETE_NAMESPACE -> done(call => CatalogHandlers.dropNamespace(catalog, call.namespace)),
    Endpoint.V1_UPDATE_NAMESPACE -> answer { call =>
      val request = call.body[UpdateNamespacePropertiesRequest]
      refuseNamespaceLocation(request.updates.keySet.asScala ++ request.removals.asScala)
      CatalogHandlers.updateNamespaceProperties(catalog, call.namespace, request)
    },
    Endpoint.V1_LIST_TABLES -> answer(call => CatalogHandlers.listTables(catalog, call.namespace)),
    Endpoint.V1_CREATE_TABLE -> answer { call =>
      val request = call.body[CreateTableRequest]
      check(call.namespace, Option(request.location), request.properties)
      val made = creating(request.name) {
        if (request.stageCreate) CatalogHandlers.stageTableCreate(catalog, call.namespace, request)
        else CatalogHandlers.createTable(catalog, call.namespace, request)
      }
      opened(call, made)
    },
    Endpoint.V1_LOAD_TABLE -> answer(call =>
      opened(call, CatalogHandlers.loadTable(catalog, call.table, call.snapshots))
    ),
    Endpoint.V1_TABLE_EXISTS -> done(call => CatalogHandlers.tableExists(catalog, call.table)),
    Endpoint.V1_UPDATE_TABLE -> answer { call =>
      val request = call.body[UpdateTableRequest]
      check(call.namespace, request)
      def update = CatalogHandlers.updateTable(catalog, call.table, request)
      if (creates(request)) creating(call.table.name)(update) else update
    },
    Endpoint.V1_DELETE_TABLE -> done(call => if (call.purge) purge(call.table) else drop(call.table)),
    Endpoint.V1_RENAME_TABLE -> done(call => CatalogHandlers.renameTable(catalog, call.renaming)),
    // A client's report on a scan: the protocol lets a catalog throw it away.
    Endpoint.V1_REPORT_METRICS -> done(_ => ()),
    Endpoint.V1_LIST_VIEWS -> answer(call => CatalogHandlers.listViews(catalog, call.namespace)),
    Endpoint.V1_CREATE_VIEW -> answer { call =>
      val request = call.body[CreateViewRequest]
      check(call.namespace, Option(request.location), request.properties)
      creating(request.name)(CatalogHandlers.createView(catalog, call.namespace, request))
    },
    Endpoint.V1_LOAD_VIEW -> answer(call => CatalogHandlers.loadView(catalog, call.view)),
    Endpoint.V1_VIEW_EXISTS -> done(call => CatalogHandlers.viewExists(catalog, call.view)),
    Endpoint.V1_UPDATE_VIEW -> answer { call =>
      val request = call.body[UpdateTableRequest]
      check(call.namespace, request)
      CatalogHandlers.updateView(catalog, call.view, request)
    },
    Endpoint.V1_DELETE_VIEW -> done(call => CatalogHandlers.dropView(catalog, call.view)),
    Endpoint.V1_RENAME_VIEW -> done(call => CatalogHandlers.renameView(catalog, call.renaming))
  )

  /**
   * The answer to one request; none where the protocol has no body for it.
   *
   * @throws UnsupportedOperationException
   *   for a request that is not offered
   */
  def respond(method: String, path: String, query: Map[String, String], body: Array[Byte]): Option[RESTResponse] =
    if (method == "GET" && path == ConfigPath) Some(config)
    else
      handlers.iterator
        .filter(_._1.httpMethod == method)
        .flatMap { case (endpoint, handler) =>
          RestCall.matching(endpoint.path, path).map(parts => handler(RestCall(parts, query, body)))
        }
        .nextOption()
        .getOrElse(throw new UnsupportedOperationException(s"$method $path is not offered by this catalog"))

  private def config: ConfigResponse = ConfigResponse.builder.withEndpoints(handlers.map(_._1).asJava).build()

  /** The answer with a table, which says, where asked, whether credentials for its location alone will do. */
  private def opened(call: RestCall, table: LoadTableResponse): LoadTableResponse =
    if (call.delegated && locations.holdsAllOf(call.namespace, table.tableMetadata))
      LoadTableResponse.builder
        .withTableMetadata(table.tableMetadata)
        .addAllConfig(table.config)
        .addConfig(Delegable, "true")
        .build()
    else table

  /** Iceberg's own catalog says of a name that a table of another format has that there is no Iceberg table of it. */
  private def creating[T](name: String)(create: => T): T =
    try create
    catch {
      case _: NoSuchIcebergTableException | _: NoSuchIcebergViewException =>
        throw new AlreadyExistsException("%s exists already, and is not Iceberg's: choose another name", name)
    }

  private def creates(request: UpdateTableRequest): Boolean =
    request.requirements.asScala.exists(_.isInstanceOf[UpdateRequirement.AssertTableDoesNotExist])

  /** Iceberg's own catalog would drop a table of another format, which it does not list. */
  private def drop(table: TableIdentifier): Unit = {
    CatalogHandlers.tableExists(catalog, table)
    CatalogHandlers.dropTable(catalog, table)
  }

  /**
   * Drops the table, and deletes those of its files that lie at its own location: the metadata says which files are
   * its, a client wrote it, and this process may delete everybody's. A failure to find out whose they are leaves the
   * table.
   *
   * The files are deleted before the client has its answer: more than a few such requests would take the threads of all
   * others for minutes.
   */
  private def purge(table: TableIdentifier): Unit = {
    if (!purges.tryAcquire())
      throw new ServiceUnavailableException("%s tables are being purged, the most at a time: try again", MostPurges)
    try purgeNow(table)
    finally purges.release()
  }

  private def purgeNow(table: TableIdentifier): Unit =
    catalog.loadTable(table) match {
      case loaded: BaseTable =>
        val metadata = loaded.operations.current
        val isOwn = locations.allows(table.namespace, metadata.location)
        drop(table)
        if (isOwn) CatalogUtil.dropTableData(new DeletesWithin(loaded.io, metadata.location), metadata)
      case _ => drop(table)
    }

  private def check(namespace: Namespace, request: UpdateTableRequest): Unit = request.updates.forEach {
    case moved: MetadataUpdate.SetLocation => check(namespace, Some(moved.location), util.Map.of())
    case set: MetadataUpdate.SetProperties => check(namespace, None, set.updated)
    case _ =>
  }

  private def check(namespace: Namespace, location: Option[String], properties: util.Map[String, String]): Unit = {
    val named = Option(properties).fold(Map[String, String]())(_.asScala.toMap)
    locations.check(namespace, location.toSeq ++ OwnLocations.Properties.flatMap(named.get))
    // A commit would wait minutes for each, and then fail.
    if (named.contains(TableProperties.HIVE_LOCK_ENABLED))
      throw new ForbiddenException("This metastore has no locks: leave out %s", TableProperties.HIVE_LOCK_ENABLED)
  }

  private def refuseNamespaceLocation(named: Iterable[String]): Unit =
    if (named.exists(_ == "location"))
      throw new ForbiddenException("A namespace's location is chosen by the catalog: leave out the property location")
}

private[catalog] object IcebergRoutes {
  val ConfigPath = "/v1/config"

  /** The purges at a time, of which each takes one of the service's threads until all files are deleted. */
  val MostPurges = 2

  /** The setting of an answer by which the service learns that it may give credentials for the table's location. */
  val Delegable = "penstock.delegable"

  private def answer[T <: RESTResponse](handle: RestCall => T): RestCall => Option[RESTResponse] =
    call => Some(handle(call))

  private def done(handle: RestCall => Unit): RestCall => Option[RESTResponse] = { call =>
    handle(call)
    None
  }

  private val Statuses: Seq[(Class[_ <: Throwable], Int)] = Seq(
    classOf[NoSuchNamespaceException] -> 404,
    classOf[NoSuchTableException] -> 404,
    classOf[NoSuchViewException] -> 404,
    classOf[AlreadyExistsException] -> 409,
    classOf[CommitFailedException] -> 409,
    classOf[NamespaceNotEmptyException] -> 409,
    classOf[UnprocessableEntityException] -> 422,
    classOf[ForbiddenException] -> 403,
    classOf[UnsupportedOperationException] -> 406,
    classOf[ServiceUnavailableException] -> 503,
    classOf[ValidationException] -> 400,
    classOf[IllegalArgumentException] -> 400,
    classOf[RestCall.Malformed] -> 400
  )

  /**
   * A failure as the protocol says it. Status 500 also says of a commit that its outcome is not known
   * (`CommitStateUnknownException`), which is true of every failure that has no other status.
   */
  def error(failure: Throwable): ErrorResponse = {
    val known = Statuses.collectFirst { case (kind, status) if kind.isInstance(failure) => status }
    val public = known.isDefined || failure.isInstanceOf[CommitStateUnknownException]
    ErrorResponse.builder
      .responseCode(Int.box(known.getOrElse(500)))
      .withType(failure.getClass.getSimpleName)
      .withMessage(Option(failure.getMessage).filter(_ => public).getOrElse("The catalog failed; its log says why"))
      .build()
  }
}

/**
 * A request.
 *
 * @param parts
 *   the decoded parts of its path, by the names that the protocol's templates give them
 */
private[catalog] final case class RestCall(parts: Map[String, String], query: Map[String, String], bytes: Array[Byte]) {

  def namespace: Namespace = RestCall.namespaceOf(parts("namespace"))
  def table: TableIdentifier = TableIdentifier.of(namespace, parts("table"))
  def view: TableIdentifier = TableIdentifier.of(namespace, parts("view"))
  def parent: Namespace = query.get("parent").filter(_.nonEmpty).fold(Namespace.empty)(RestCall.namespaceOf)
  def purge: Boolean = query.get("purgeRequested").exists(_.equalsIgnoreCase("true"))
  def delegated: Boolean = query.get("delegated").contains("true")

  def snapshots: SnapshotMode =
    query.get("snapshots").fold(SnapshotMode.ALL)(mode => SnapshotMode.valueOf(mode.toUpperCase(Locale.ROOT)))

  def namespaceToCreate: CreateNamespaceRequest = {
    val asked = body[CreateNamespaceRequest]
    CreateNamespaceRequest.builder
      .withNamespace(RestCall.lowerCase(asked.namespace))
      .setProperties(asked.properties)
      .build()
  }

  def renaming: RenameTableRequest = {
    def lowerCase(table: TableIdentifier) = TableIdentifier.of(RestCall.lowerCase(table.namespace), table.name)
    val asked = body[RenameTableRequest]
    RenameTableRequest.builder
      .withSource(lowerCase(asked.source))
      .withDestination(lowerCase(asked.destination))
      .build()
  }

  def body[T <: RESTRequest: ClassTag]: T = {
    val read =
      try RestCall.Json.readValue(bytes, implicitly[ClassTag[T]].runtimeClass.asInstanceOf[Class[T]])
      catch { case malformed: JsonProcessingException => throw new RestCall.Malformed(malformed) }
    if (read == null) throw new IllegalArgumentException("The body is empty")
    read.validate()
    read
  }
}

private[catalog] object RestCall {

  /** Json as the protocol writes it: Iceberg's own mapper of this kind is not public. */
  val Json: ObjectMapper = {
    val mapper = new ObjectMapper
    mapper.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY)
    mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
    mapper.setPropertyNamingStrategy(PropertyNamingStrategies.KEBAB_CASE)
    RESTSerializers.registerAll(mapper)
    mapper
  }

  final class Malformed(cause: JsonProcessingException)
      extends RuntimeException(s"The body is not what the protocol says: ${cause.getOriginalMessage}", cause)

  /** The parts of a path by their names in a template (`/v1/{prefix}/namespaces`); none where it is another path. */
  def matching(template: String, path: String): Option[Map[String, String]] = {
    val (wanted, given) = (template.split('/'), path.split('/'))
    Option.when(wanted.length == given.length)(wanted.zip(given)).flatMap { pairs =>
      val (named, literal) = pairs.partition(_._1.startsWith("{"))
      Option.when(literal.forall { case (a, b) => a == b })(named.map { case (name, part) =>
        name.substring(1, name.length - 1) -> RESTUtil.decodePathSegment(part)
      }.toMap)
    }
  }

  /** The levels of a namespace are parted by the character 0x1F. */
  private def namespaceOf(text: String): Namespace = lowerCase(Namespace.of(text.split('\u001f'): _*))

  /** A namespace as the metastore lists it, which ignores case. */
  private def lowerCase(namespace: Namespace): Namespace =
    Namespace.of(namespace.levels.toIndexedSeq.map(_.toLowerCase(Locale.ROOT)): _*)
}
