"""The lake's tables for engines that read Iceberg tables: their descriptions, and the catalog that serves them."""
