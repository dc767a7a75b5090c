package io.penstock.suites

import org.apache.spark.sql._
import org.apache.spark.sql.execution.datasources.parquet._
import org.apache.spark.sql.sources._
import org.apache.spark.sql.test.DataFrameReaderWriterSuite

// Spark's suites with their files in an S3 store. The one that writes buckets looks at each of its files as a local one, and
// shows nothing here; buckets are written by the one that reads them. The one of SQL files wants a local warehouse.

class StoredInsertSuite extends InsertSuite with OnTheStore
class StoredSqlInsertSuite extends FileSourceSQLInsertTestSuite with OnTheStore
class StoredTableAsSelectSuite extends CreateTableAsSelectSuite with OnTheStore
class StoredPartitionedWriteSuite extends PartitionedWriteSuite with OnTheStore
class StoredBucketedReadSuite extends BucketedReadWithoutHiveSupportSuite with OnTheStore
class StoredReaderWriterSuite extends DataFrameReaderWriterSuite with OnTheStore
class StoredFilesSuite extends FileBasedDataSourceSuite with OnTheStore

class StoredParquetFilterSuite extends ParquetV1FilterSuite with OnTheStore
class StoredParquetQuerySuite extends ParquetV1QuerySuite with OnTheStore
class StoredParquetIoSuite extends ParquetIOSuite with OnTheStore
class StoredParquetPartitionsSuite extends ParquetV1PartitionDiscoverySuite with OnTheStore
class StoredParquetSchemaPruningSuite extends ParquetV1SchemaPruningSuite with OnTheStore with RowsInMemory

class StoredJoinSuite extends JoinSuite with OnTheStore
class StoredSubquerySuite extends SubquerySuite with OnTheStore
class StoredPruningSuite extends DynamicPartitionPruningV1SuiteAEOn with OnTheStore with NotesAside
