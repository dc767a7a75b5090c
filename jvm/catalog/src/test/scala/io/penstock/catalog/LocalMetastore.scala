package io.penstock.catalog

import java.lang.reflect.Proxy

import scala.collection.concurrent.TrieMap
import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.conf.HiveConf
import org.apache.hadoop.hive.metastore.IMetaStoreClient
import org.apache.hadoop.hive.metastore.api.{Database, NoSuchObjectException, SerDeInfo, StorageDescriptor, Table}
import org.apache.iceberg.ClientPool
import org.apache.iceberg.hadoop.ConfigProperties
import org.apache.iceberg.hive.HiveCatalog
import org.apache.iceberg.inmemory.InMemoryFileIO
import org.apache.thrift.TException

/**
 * A Hive metastore in this process, with the database `sales`, as far as Iceberg's catalog over one creates and loads.
 */
final class LocalMetastore {

  val tables: TrieMap[String, Table] = TrieMap()

  private val sales = new Database("sales", "", "s3a://lake/warehouse/sales.db", java.util.Map.of())

  private val client: IMetaStoreClient = Proxy
    .newProxyInstance(
      getClass.getClassLoader,
      Array[Class[_]](classOf[IMetaStoreClient]),
      (_, method, arguments) =>
        (method.getName, Option(arguments).toSeq.flatten) match {
          case ("getAllDatabases", _) => List(sales.getName).asJava
          case ("getDatabase", Seq("sales")) => sales
          case ("getTable", Seq(database, name)) =>
            tables.getOrElse(s"$database.$name", throw new NoSuchObjectException)
          case ("createTable", Seq(table: Table)) =>
            tables.put(s"${table.getDbName}.${table.getTableName}", table)
            null
          case (_, known) => throw new NoSuchObjectException(s"${method.getName} $known")
        }
    )
    .asInstanceOf[IMetaStoreClient]

  /** A table of Spark's in another format than Iceberg's. */
  def addParquet(name: String): Unit = {
    val storage = new StorageDescriptor
    storage.setSerdeInfo(new SerDeInfo)
    val table = new Table(name, "sales", "root", 0, 0, 0, storage, List().asJava, null, "", "", "MANAGED_TABLE")
    table.setParameters(java.util.Map.of("spark.sql.sources.provider", "parquet"))
    tables.put(s"sales.$name", table)
  }

  val catalog: HiveCatalog = {
    val conf = new HiveConf(classOf[HiveCatalog])
    conf.setBoolean(ConfigProperties.LOCK_HIVE_ENABLED, false)
    val made = new HiveCatalog
    made.setConf(conf)
    made.initialize("lake", Map("io-impl" -> classOf[InMemoryFileIO].getName).asJava)
    val clients = classOf[HiveCatalog].getDeclaredField("clients")
    clients.setAccessible(true)
    clients.set(
      made,
      new ClientPool[IMetaStoreClient, TException] {
        override def run[R](action: ClientPool.Action[R, IMetaStoreClient, TException]): R = action.run(client)
        override def run[R](action: ClientPool.Action[R, IMetaStoreClient, TException], retry: Boolean): R = run(action)
      }
    )
    made
  }
}
