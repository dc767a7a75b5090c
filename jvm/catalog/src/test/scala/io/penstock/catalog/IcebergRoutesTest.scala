package io.penstock.catalog

import java.nio.charset.StandardCharsets.UTF_8
import java.util
import java.util.concurrent.{CountDownLatch, Executors, Semaphore, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.iceberg.catalog.{Namespace, TableIdentifier}
import org.apache.iceberg.exceptions._
import org.apache.iceberg.inmemory.{InMemoryCatalog, InMemoryFileIO}
import org.apache.iceberg.rest.RESTResponse
import org.apache.iceberg.rest.responses._
import org.apache.iceberg.types.Types
import org.apache.iceberg.view.SQLViewRepresentation
import org.apache.iceberg.{DataFiles, FileFormat, PartitionSpec, Schema, Table}
import org.apache.spark.sql.penstock.MetastoreTables
import org.scalatest.funsuite.AnyFunSuite

class IcebergRoutesTest extends AnyFunSuite {

  private val schema = new Schema(Types.NestedField.required(1, "id", Types.LongType.get))
  private val columns = """{"type": "struct", "fields": [{"id": 1, "name": "id", "required": true, "type": "long"}]}"""

  /** A catalog with the namespaces `sales` and `stock`, and one around them, as the metastore's `default` is. */
  private final class Fixture(val catalog: InMemoryCatalog = new InMemoryCatalog) {
    catalog.initialize("memory", Map("warehouse" -> "s3a://lake/warehouse").asJava)
    for ((name, location) <- Seq("default" -> "", "sales" -> "/sales.db", "stock" -> "/stock.db"))
      catalog.createNamespace(Namespace.of(name), Map("location" -> s"s3a://lake/warehouse$location").asJava)
    private val routes = new IcebergRoutes(catalog)

    def ask(method: String, path: String, body: String = "", query: Map[String, String] = Map()): Option[RESTResponse] =
      routes.respond(method, s"/v1/lake/$path", query, body.getBytes(UTF_8))

    def create(name: String, more: String = ""): Option[RESTResponse] =
      ask("POST", "namespaces/sales/tables", s"""{"name": "$name", "schema": $columns$more}""")

    def config: ConfigResponse =
      routes.respond("GET", "/v1/config", Map(), Array()).get.asInstanceOf[ConfigResponse]

    val orders: TableIdentifier = TableIdentifier.of("sales", "orders")
  }

  private val outside = Seq(
    "s3a://lake/warehouse/stock.db/orders",
    "s3a://lake/warehouse/sales.db/../stock.db/orders",
    "s3a://lake/warehouse/sales.db2",
    "s3a://other/warehouse/sales.db/orders",
    "file:///etc"
  )

  test("a client learns what is offered") {
    val offered = new Fixture().config.endpoints.asScala.map(_.toString)
    assert(offered.contains("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"))
    assert(!offered.contains("POST /v1/{prefix}/transactions/commit"))
  }

  test("a table is created, loaded, listed, renamed and dropped") {
    val fixture = new Fixture
    fixture.create("orders")
    val loaded = fixture.ask("GET", "namespaces/sales/tables/orders").get.asInstanceOf[LoadTableResponse]
    assert(loaded.tableMetadata.schema.sameSchema(schema))
    val renaming =
      """{"source": {"namespace": ["sales"], "name": "orders"}, "destination": {"namespace": ["stock"], "name": "a/b"}}"""
    assert(fixture.ask("POST", "tables/rename", renaming).isEmpty)
    assert(fixture.ask("HEAD", "namespaces/stock/tables/a%2Fb").isEmpty)
    val listed = fixture.ask("GET", "namespaces/stock/tables").get.asInstanceOf[ListTablesResponse]
    assert(listed.identifiers.asScala == Seq(TableIdentifier.of("stock", "a/b")))
    assert(fixture.ask("DELETE", "namespaces/stock/tables/a%2Fb").isEmpty)
    intercept[NoSuchTableException](fixture.ask("GET", "namespaces/stock/tables/a%2Fb"))
  }

  private def askOf(metastore: LocalMetastore)(method: String, path: String, body: String): Option[RESTResponse] =
    new IcebergRoutes(metastore.catalog).respond(method, s"/v1/lake/$path", Map(), body.getBytes(UTF_8))

  private def viewNamed(name: String): String = s"""{"name": "$name", "schema": $columns, "properties": {},
    "view-version": {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {"engine-name": "trino"},
      "representations": [{"type": "sql", "sql": "SELECT id FROM orders", "dialect": "trino"}],
      "default-namespace": ["stock"]}}"""

  test("a view is created and loaded, and the metastore has it by the mark at which Spark refuses it") {
    val metastore = new LocalMetastore
    val ask = askOf(metastore) _
    ask("POST", "namespaces/sales/views", viewNamed("open"))
    val loaded = ask("GET", "namespaces/sales/views/open", "").get.asInstanceOf[LoadViewResponse]
    val version = loaded.metadata.currentVersion
    assert(version.defaultNamespace == Namespace.of("stock"))
    assert(version.representations.asScala.head.asInstanceOf[SQLViewRepresentation].sql == "SELECT id FROM orders")
    val stored = metastore.tables("sales.open")
    assert(stored.getTableType == "VIRTUAL_VIEW")
    assert(MetastoreTables.isIcebergView(stored.getParameters.asScala.toMap))
  }

  test("a name that a table of another format has is taken, and not missing") {
    val metastore = new LocalMetastore
    metastore.addParquet("plain")
    val ask = askOf(metastore) _
    val created = """"requirements": [{"type": "assert-create"}], "updates": []"""
    for (
      (path, body) <- Seq(
        "tables" -> s"""{"name": "plain", "schema": $columns}""",
        "tables" -> s"""{"name": "plain", "schema": $columns, "stage-create": true}""",
        "tables/plain" -> s"{$created}",
        "views" -> viewNamed("plain")
      )
    ) {
      val error = IcebergRoutes.error(intercept[Exception](ask("POST", s"namespaces/sales/$path", body)))
      assert((error.code, error.`type`) == ((409, "AlreadyExistsException")), body)
    }
    val missing = intercept[Exception](ask("GET", "namespaces/sales/tables/plain", ""))
    assert(IcebergRoutes.error(missing).code == 404)
  }

  test("a commit that names a state which is no longer the table's is refused") {
    val fixture = new Fixture
    fixture.create("orders")
    val stale = """{"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}],
      "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}"""
    val refused = intercept[Exception](fixture.ask("POST", "namespaces/sales/tables/orders", stale))
    assert(IcebergRoutes.error(refused).code == 409)
  }

  test("a table's files are written within its namespace, wherever a client says it") {
    for (location <- outside) {
      val fixture = new Fixture
      intercept[ForbiddenException](fixture.create("orders", s""", "location": "$location""""))
      intercept[ForbiddenException](fixture.create("orders", s""", "stage-create": true, "location": "$location""""))
      for (name <- Seq("write.data.path", "write.metadata.path", "write.object-storage.path"))
        intercept[ForbiddenException](fixture.create("orders", s""", "properties": {"$name": "$location"}"""))
      assert(!fixture.catalog.tableExists(fixture.orders))
      fixture.create("orders", """, "location": "s3a://lake/warehouse/sales.db/elsewhere"""")
      for (
        update <- Seq(
          s"""{"action": "set-location", "location": "$location"}""",
          s"""{"action": "set-properties", "updates": {"write.data.path": "$location"}}"""
        )
      )
        intercept[ForbiddenException](
          fixture.ask("POST", "namespaces/sales/tables/orders", s"""{"requirements": [], "updates": [$update]}""")
        )
    }
  }

  test("a location within the outer namespace is not one of an inner namespace, nor around it") {
    val fixture = new Fixture
    def create(location: String) = fixture.ask(
      "POST",
      "namespaces/default/tables",
      s"""{"name": "orders", "schema": $columns, "location": "s3a://lake/warehouse/$location"}"""
    )
    intercept[ForbiddenException](create("stock.db/orders"))
    intercept[ForbiddenException](create(""))
    assert(create("orders").isDefined)
  }

  test("credentials for a table's location will do where all of its files are there, and nobody else's") {
    val fixture = new Fixture
    val warehouse = "s3a://lake/warehouse"
    def delegable(namespace: String, location: String, properties: (String, String)*): Boolean = {
      val table = TableIdentifier.of(namespace, "orders")
      fixture.catalog.buildTable(table, schema).withLocation(location).withProperties(properties.toMap.asJava).create()
      def config(query: (String, String)*) = {
        val loaded = fixture.ask("GET", s"namespaces/$namespace/tables/orders", query = query.toMap)
        loaded.get.asInstanceOf[LoadTableResponse].config.asScala
      }
      assert(config().isEmpty)
      val found = config("delegated" -> "true")
      fixture.catalog.dropTable(table)
      found.contains(IcebergRoutes.Delegable)
    }
    assert(delegable("sales", s"$warehouse/sales.db/orders"))
    assert(delegable("default", s"$warehouse/orders"))
    assert(delegable("sales", s"$warehouse/sales.db/orders", "write.data.path" -> s"$warehouse/sales.db/orders/files"))
    // Files of its own elsewhere, or files of others.
    assert(!delegable("sales", s"$warehouse/sales.db/orders", "write.data.path" -> s"$warehouse/sales.db/files"))
    assert(!delegable("sales", s"$warehouse/sales.db/orders", "snapshot" -> "true"))
    assert(!delegable("sales", s"$warehouse/stock.db/orders"))
    assert(!delegable("default", s"$warehouse/stock.db/orders"))
    assert(!delegable("default", warehouse))
    // As on a table that only its first commit will create.
    val location = s"$warehouse/sales.db/staged"
    val staged = s"""{"name": "staged", "schema": $columns, "stage-create": true, "location": "$location"}"""
    val made = fixture.ask("POST", "namespaces/sales/tables", staged, Map("delegated" -> "true"))
    assert(made.get.asInstanceOf[LoadTableResponse].config.containsKey(IcebergRoutes.Delegable))
  }

  test("a table does not ask for locks, for which its commits would wait in vain") {
    val fixture = new Fixture
    intercept[ForbiddenException](fixture.create("orders", """, "properties": {"engine.hive.lock-enabled": "true"}"""))
    fixture.create("orders")
    val locked = """{"action": "set-properties", "updates": {"engine.hive.lock-enabled": "true"}}"""
    intercept[ForbiddenException](
      fixture.ask("POST", "namespaces/sales/tables/orders", s"""{"requirements": [], "updates": [$locked]}""")
    )
  }

  test("a namespace's location is the catalog's to choose") {
    val fixture = new Fixture
    val named = """"location": "s3a://lake/warehouse/stock.db""""
    intercept[ForbiddenException](
      fixture.ask("POST", "namespaces", s"""{"namespace": ["mine"], "properties": {$named}}""")
    )
    intercept[ForbiddenException](fixture.ask("POST", "namespaces/sales/properties", s"""{"updates": {$named}}"""))
    intercept[ForbiddenException](fixture.ask("POST", "namespaces/sales/properties", """{"removals": ["location"]}"""))
  }

  private val purging = Map("purgeRequested" -> "true")

  /** Create a table at this location, whose manifests name these files. */
  private def tableOf(fixture: Fixture, table: TableIdentifier, location: String, paths: String*): InMemoryFileIO = {
    val made = fixture.catalog.buildTable(table, schema).withLocation(location).create()
    val files = made.io.asInstanceOf[InMemoryFileIO]
    val added = made.newAppend()
    for (path <- paths) {
      files.addFile(path, Array[Byte](1))
      added.appendFile(
        DataFiles
          .builder(PartitionSpec.unpartitioned)
          .withPath(path)
          .withFormat(FileFormat.PARQUET)
          .withFileSizeInBytes(1)
          .withRecordCount(1)
          .build()
      )
    }
    added.commit()
    files
  }

  test("a purge deletes the table's files, and none elsewhere that its metadata names") {
    val fixture = new Fixture
    val location = "s3a://lake/warehouse/sales.db/orders"
    val (own, others) = (s"$location/data/1.parquet", "s3a://lake/warehouse/stock.db/2.parquet")
    val files = tableOf(fixture, fixture.orders, location, own, others)
    fixture.ask("DELETE", "namespaces/sales/tables/orders", query = purging)
    assert(!fixture.catalog.tableExists(fixture.orders))
    assert(!files.fileExists(own))
    assert(files.fileExists(others))
  }

  test("a purge deletes no other namespace's files where the table's location lies around them") {
    val fixture = new Fixture
    val others = "s3a://lake/warehouse/stock.db/2.parquet"
    val table = TableIdentifier.of("default", "orders")
    val files = tableOf(fixture, table, "s3a://lake/warehouse", others)
    fixture.ask("DELETE", "namespaces/default/tables/orders", query = purging)
    assert(!fixture.catalog.tableExists(table))
    assert(files.fileExists(others))
  }

  test("a purge that cannot decide which files are the table's drops nothing") {
    var fails = false
    val fixture = new Fixture(new InMemoryCatalog {
      override def loadNamespaceMetadata(namespace: Namespace): util.Map[String, String] =
        if (fails) throw new IllegalStateException("no metastore") else super.loadNamespaceMetadata(namespace)
    })
    fixture.create("orders")
    fails = true
    intercept[IllegalStateException](fixture.ask("DELETE", "namespaces/sales/tables/orders", query = purging))
    assert(fixture.catalog.tableExists(fixture.orders))
  }

  test("of many purges at once a few are made, and the others are to be asked for again") {
    val (started, finish) = (new Semaphore(0), new CountDownLatch(1))
    val fixture = new Fixture(new InMemoryCatalog {
      override def loadTable(table: TableIdentifier): Table = {
        started.release()
        finish.await()
        super.loadTable(table)
      }
    })
    def purge(name: String): Unit = fixture.ask("DELETE", s"namespaces/sales/tables/$name", query = purging)
    val names = (0 until IcebergRoutes.MostPurges).map(number => s"orders$number")
    for (name <- names :+ "more") fixture.create(name)
    val threads = Executors.newCachedThreadPool()
    try {
      val running = names.map(name => threads.submit[Unit](() => purge(name)))
      assert(started.tryAcquire(names.size, 10, TimeUnit.SECONDS))
      assert(IcebergRoutes.error(intercept[ServiceUnavailableException](purge("more"))).code == 503)
      assert(fixture.catalog.listTables(Namespace.of("sales")).contains(TableIdentifier.of("sales", "more")))
      finish.countDown()
      running.foreach(_.get(10, TimeUnit.SECONDS))
      purge("more")
      assert(fixture.catalog.listTables(Namespace.of("sales")).isEmpty)
    } finally threads.shutdownNow()
  }

  test("a namespace that is dropped while locations are compared has none") {
    val fixture = new Fixture(new InMemoryCatalog {
      override def listNamespaces(): util.List[Namespace] =
        (super.listNamespaces().asScala.toSeq :+ Namespace.of("dropped")).asJava
    })
    assert(fixture.create("orders", """, "location": "s3a://lake/warehouse/sales.db/elsewhere"""").isDefined)
  }

  test("a namespace is the same one in capitals, as the metastore has it") {
    val fixture = new Fixture
    val location = "s3a://lake/warehouse/sales.db/orders"
    val created = fixture.ask(
      "POST",
      "namespaces/SALES/tables",
      s"""{"name": "made", "schema": $columns, "location": "s3a://lake/warehouse/sales.db/made"}""",
      Map("delegated" -> "true")
    )
    assert(created.get.asInstanceOf[LoadTableResponse].config.containsKey(IcebergRoutes.Delegable))
    val files = tableOf(fixture, fixture.orders, location, s"$location/data/1.parquet")
    fixture.ask("DELETE", "namespaces/Sales/tables/orders", query = purging)
    assert(!files.fileExists(s"$location/data/1.parquet"))
    val renaming =
      """{"source": {"namespace": ["SALES"], "name": "made"}, "destination": {"namespace": ["Stock"], "name": "kept"}}"""
    assert(fixture.ask("POST", "tables/rename", renaming).isEmpty)
    assert(fixture.catalog.tableExists(TableIdentifier.of("stock", "kept")))
    fixture.ask("POST", "namespaces", """{"namespace": ["Mine"], "properties": {"a": "b"}}""")
    assert(fixture.catalog.loadNamespaceMetadata(Namespace.of("mine")).get("a") == "b")
  }

  test("a drop without a purge leaves the files") {
    val fixture = new Fixture
    fixture.create("orders")
    val table = fixture.catalog.loadTable(fixture.orders).asInstanceOf[org.apache.iceberg.BaseTable]
    val metadata = table.operations.current.metadataFileLocation
    fixture.ask("DELETE", "namespaces/sales/tables/orders")
    assert(table.io.asInstanceOf[InMemoryFileIO].fileExists(metadata))
  }

  test("what is not offered is refused, and what is malformed, by the protocol's statuses") {
    val fixture = new Fixture
    def status(method: String, path: String, body: String = ""): Int =
      IcebergRoutes.error(intercept[Exception](fixture.ask(method, path, body))).code
    assert(status("POST", "transactions/commit", "{}") == 406)
    assert(status("POST", "namespaces/sales/register", "{}") == 406)
    assert(status("PUT", "namespaces") == 406)
    assert(status("POST", "namespaces", "{") == 400)
    assert(status("POST", "namespaces") == 400)
    assert(status("POST", "namespaces", """{"namespace": ["sales"]}""") == 409)
    assert(status("POST", "namespaces/sales/tables", """{"name": "orders"}""") == 400)
    assert(status("GET", "namespaces/none") == 404)
    assert(status("GET", "namespaces/sales/tables/none") == 404)
    assert(status("GET", "namespaces/sales/views/none") == 404)
  }

  test("a defect's message stays in the log") {
    val error = IcebergRoutes.error(new IllegalStateException("password=x"))
    assert(error.code == 500)
    assert(!error.message.contains("password"))
  }
}
