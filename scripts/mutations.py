#!/usr/bin/env python3
"""Break the product on purpose, one defect at a time, and check that the tests of `make test` notice.

    mutations.py            every defect
    mutations.py NAME …     some of them
    mutations.py --list     the table

Each defect is one replacement in one file of a copy of the tree. The suite named beside it is a part of `make test`; it
has to pass on the unchanged copy and to fail on the changed one. The exit code is 1 if a defect is not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINE = "src/penstock/engine"
CACHE = "jvm/filesystem/src/main/scala/io/penstock/fs"
REPLACE_TABLE = "jvm/filesystem/src/main/scala/org/apache/spark/sql/penstock/ReplaceTableCommand.scala"
SKIPPING = "jvm/skipping/src/main/scala/io/penstock/skipping"


@dataclass(frozen=True)
class Mutation:
    """One defect: `old` is replaced by `new` in `file`.

    `suite` is a file of Python tests, or a module of the JVM and a suite of it, separated by a colon.
    """

    name: str
    defect: str
    file: str
    old: str
    new: str
    suite: str


MUTATIONS = (
    Mutation(
        "lifecycle-final",
        "a final state changes when a late event arrives",
        f"{ENGINE}/policy/lifecycle.py",
        "    if state.final:\n        return application, ()\n    if state in",
        "    if state in",
        "tests/unit/engine/policy/test_lifecycle.py",
    ),
    Mutation(
        "lab-strays",
        "the processor time of processes that outlive their parents is lost",
        "src/penstock/clusters/shim.py",
        'self.status["strays_cpu_seconds"] + end["cpu_seconds"]',
        'self.status["strays_cpu_seconds"]',
        "tests/unit/lab/test_launchers.py",
    ),
    Mutation(
        "lab-price",
        "the lab prices heaps alone",
        "src/penstock/lab/analysis/cost.py",
        "return cluster_hour(size, prices) if prices",
        "return prices.compute_per_hour(promised(size).cores, size.executor.memory_bytes / 2**30) if prices",
        "tests/unit/lab/analysis/test_cost_sizing.py",
    ),
    Mutation(
        "lab-stores",
        "another cluster size counts as another store",
        "src/penstock/lab/analysis/stores.py",
        '("launcher", "cluster size", "profile", "settings")',
        '("launcher", "profile", "settings")',
        "tests/unit/lab/analysis/test_stores.py",
    ),
    Mutation(
        "lifecycle-outcome",
        "an application that did its work is recorded as stopped because a stop was on its way",
        f"{ENGINE}/policy/lifecycle.py",
        "    if exit_code == 0:\n        return State.FINISHED",
        "    if exit_code == 0 and reason is None:\n        return State.FINISHED",
        "tests/unit/engine/policy/test_lifecycle.py",
    ),
    Mutation(
        "scheduling-weight",
        "a queue's weight does not count for what it holds",
        f"{ENGINE}/policy/scheduling.py",
        "self._dominant(cores, memory) / weight,",
        "self._dominant(cores, memory),",
        "tests/unit/engine/policy/test_scheduling.py",
    ),
    Mutation(
        "scheduling-quota",
        "a queue runs one application more than its quota",
        f"{ENGINE}/policy/scheduling.py",
        "has.running >= quota.running",
        "has.running > quota.running",
        "tests/unit/engine/policy/test_scheduling.py",
    ),
    Mutation(
        "spark-ui-one-application",
        "permission to see one application's pages opens another's",
        "src/penstock/service/spark_ui/access.py",
        "found is not None and found.root == root and",
        "found is not None and",
        "tests/unit/service/test_spark_ui.py",
    ),
    Mutation(
        "spark-ui-once",
        "a link to Spark's pages opens them again and again",
        "src/penstock/service/spark_ui/access.py",
        'taken = self._store.take_grant(grant_digest("ticket", ticket))',
        'taken = self._store.find_grant(grant_digest("ticket", ticket))',
        "tests/unit/service/test_spark_ui.py",
    ),
    Mutation(
        "token-expiry",
        "a token is valid at the moment at which it expires",
        "src/penstock/engine/tokens.py",
        "token.expires_at <= at",
        "token.expires_at < at",
        "tests/unit/engine/test_tokens.py",
    ),
    Mutation(
        "token-secret",
        "the id of a token is enough, whatever the secret",
        "src/penstock/engine/tokens.py",
        "if not hmac.compare_digest(known, hash_secret(secret)) or token is None:",
        "if not known or token is None:",
        "tests/unit/engine/test_tokens.py",
    ),
    Mutation(
        "cache-checksum",
        "the checksum of a page's trailer is ignored",
        f"{CACHE}/cache/PageFiles.scala",
        "if (checksum(ByteBuffer.wrap(bytes, 0, size - 12)) != trailer.getInt(size - 12))",
        "if (checksum(ByteBuffer.wrap(bytes, 0, size - 12)) == 0 && trailer.getInt(size - 12) == 1)",
        "filesystem:io.penstock.fs.cache.DamageSuite",
    ),
    Mutation(
        "cache-version",
        "an object that was modified a moment before is taken for the version that was seen",
        f"{CACHE}/read/VersionResolver.scala",
        "if (strict || known.racy || known",
        "if (strict || known",
        "filesystem:io.penstock.fs.read.VersionPolicyTest",
    ),
    Mutation(
        "cache-mixed",
        "claims on a version's pages are filled with what the stream reads by then, which may be another version",
        f"{CACHE}/read/PageFetcher.scala",
        "open(leases.request, Some(of.etag), stopped)",
        "open(leases.request, resolver.expected, stopped)",
        "filesystem:io.penstock.fs.read.PageFetcherTest",
    ),
    Mutation(
        "cache-arrived",
        "a page of a version that the stream has turned away from is given out",
        f"{CACHE}/read/PageFetcher.scala",
        "(!sink.givesOut || resolver.givesOut(of)) && ",
        "",
        "filesystem:io.penstock.fs.read.PageFetcherTest",
    ),
    Mutation(
        "replace-dropped",
        "a table that saveAsTable overwrites is dropped before its query runs",
        REPLACE_TABLE,
        "    replacement.fold(overwrite.run(session))",
        "    replacement.filter(_ => false).fold(overwrite.run(session))",
        "filesystem:io.penstock.fs.commit.ReplaceTableTest",
    ),
    Mutation(
        "replace-files",
        "dropping a managed table's old entry deletes the new files at the same place",
        REPLACE_TABLE,
        "    if (old.tableType == CatalogTableType.MANAGED) catalog.alterTable(",
        "    if (old.location != location) catalog.alterTable(",
        "filesystem:io.penstock.fs.commit.ReplaceTableTest",
    ),
    Mutation(
        "commit-order",
        "a job takes its record for the latest one although a later job has followed",
        f"{CACHE}/commit/TableCommit.scala",
        "entries.lastOption.exists(_.generation == generation)",
        "entries.exists(_.generation == generation)",
        "filesystem:io.penstock.fs.commit.ConcurrentCommitsTest",
    ),
    Mutation(
        "commit-lost",
        "aborted uploads count as completed",
        f"{CACHE}/commit/TableCommit.scala",
        "upload.makes(tag).getOrElse(true))\n    }",
        "upload.makes(tag).getOrElse(true)) || look == Looks - 1\n    }",
        "filesystem:io.penstock.fs.commit.StoreCommitTest",
    ),
    Mutation(
        "commit-proposal",
        "a proposal that a job is losing counts after the job was finished, too",
        f"{CACHE}/commit/TableCommit.scala",
        "case Some(Outcome.Losing) if !commitLog.holds(generation, record) =>",
        "case Some(Outcome.Losing) if record.uploads.isEmpty =>",
        "filesystem:io.penstock.fs.commit.StoppedCommitTest",
    ),
    Mutation(
        "commit-success",
        "a driver whose record another one has finished reports success, whatever the outcome",
        f"{CACHE}/commit/TableCommit.scala",
        "def finished(): Unit = if (own) requireLanded(record)",
        "def finished(): Unit = ()",
        "filesystem:io.penstock.fs.commit.ConcurrentCommitsTest",
    ),
    Mutation(
        "commit-agreement",
        "a job whose uploads are missing is undone although another driver has finished it",
        f"{CACHE}/commit/TableCommit.scala",
        "case Some(Outcome.Landed) =>\n          if",
        "case Some(Outcome.Landed) if missing.isEmpty =>\n          if",
        "filesystem:io.penstock.fs.commit.ConcurrentCommitsTest",
    ),
    Mutation(
        "commit-attempt",
        "all attempts of a task upload under one name",
        f"{CACHE}/commit/TaskOutput.scala",
        "-$job-${id.getId}${spec.suffix}",
        "-$job${spec.suffix}",
        "filesystem:io.penstock.fs.commit.StoreCommitTest",
    ),
    Mutation(
        "commit-version",
        "a job replaces a table that has changed since it read it",
        f"{CACHE}/commit/TableCommit.scala",
        "if (expected.exists(_ != latest))",
        "if (expected.exists(_ > latest))",
        "filesystem:io.penstock.fs.commit.ConcurrentCommitsTest",
    ),
    Mutation(
        "listing-own-write",
        "a prefetched listing is returned after this process has changed the directory",
        f"{CACHE}/list/ListingPrefetcher.scala",
        " || changes != learntAfter) known",
        ") known",
        "filesystem:io.penstock.fs.list.ListingPrefetcherTest",
    ),
    Mutation(
        "listing-found",
        "the same; whether the model of operations finds it",
        f"{CACHE}/list/ListingPrefetcher.scala",
        " || changes != learntAfter) known",
        ") known",
        "filesystem:io.penstock.fs.read.OperationsModelTest",
    ),
    Mutation(
        "stale-found",
        "cached metadata of an object never expires",
        f"{CACHE}/read/VersionResolver.scala",
        "confirmed > now || now - confirmed > maxStaleness",
        "confirmed > now",
        "filesystem:io.penstock.fs.read.OperationsModelTest",
    ),
    Mutation(
        "gateway-return",
        "the end of a request counts for a gateway that has come back since it was sent",
        f"{CACHE}/gateways/GatewayPool.scala",
        "attempt.id > joinedAfter",
        "attempt.id > 0",
        "filesystem:io.penstock.fs.gateways.GatewayPoolTest",
    ),
    Mutation(
        "cache-paused-fill",
        "the file of a page whose slot was given up stays",
        f"{CACHE}/cache/Tier.scala",
        "if (tier.table.find(key) == PageTable.Nowhere) tier.directory.delete(key)",
        "if (tier.table.find(key) != PageTable.Nowhere) tier.directory.delete(key)",
        "filesystem:io.penstock.fs.cache.TierFailureSuite",
    ),
    Mutation(
        "skipping-casts",
        "a column counts as itself through any cast that Spark does by itself",
        f"{SKIPPING}/model/Values.scala",
        "(Cast.canUpCast(from, to) && of(to, from).isDefined)",
        "Cast.canUpCast(from, to)",
        "skipping:io.penstock.skipping.model.FilterTranslatorTest",
    ),
    Mutation(
        "skipping-casts-found",
        "the same; whether the fuzzer finds it",
        f"{SKIPPING}/model/Values.scala",
        "(Cast.canUpCast(from, to) && of(to, from).isDefined)",
        "Cast.canUpCast(from, to)",
        "skipping:io.penstock.skipping.fuzz.FilterFuzzSuite",
    ),
    Mutation(
        "skipping-repeatable",
        "a join's side may be run again whatever it aggregates by, but for floating point",
        f"{SKIPPING}/join/KeySources.scala",
        "case AggregateExpression(function, _, _, _, _) => !ignoresOrder(function)",
        "case AggregateExpression(function, _, _, _, _) => !isExact(function.dataType)",
        "skipping:io.penstock.skipping.join.KeySourcesTest",
    ),
    Mutation(
        "skipping-listed",
        "each run of a join's side asks the metastore for its partitions",
        f"{SKIPPING}/join/JoinSkipping.scala",
        "listedOnce(reuse(joins.filtered, plan))",
        "if (plan.isStreaming) listedOnce(plan) else reuse(joins.filtered, plan)",
        "skipping:io.penstock.skipping.join.KeySourcesTest",
    ),
    Mutation(
        "iceberg-travel",
        "a tag of an Iceberg table's newest snapshot is read with the present schema",
        "jvm/skipping/src/main/scala/org/apache/iceberg/spark/source/IndexedQueryScan.scala",
        "Option.when(plain == new SparkTable(plain.table()))(indexed)",
        "Option.when(plain.branch == null && plain.version == indexed.version)(indexed)",
        "skipping:io.penstock.skipping.plan.IcebergScansTest",
    ),
    Mutation(
        "rewrite-partitions",
        "a partition anywhere below a table's directory is rewritten in place",
        f"{SKIPPING}/layout/TableRewrite.scala",
        "case InPlace if place != own =>",
        "case InPlace if place != own && !place.toString.startsWith(root.toString) =>",
        "skipping:io.penstock.skipping.layout.TableRewriteTest",
    ),
    Mutation(
        "configuration-mixed",
        "an executor reads with the configuration of another session",
        "jvm/catalog/src/main/scala/io/penstock/catalog/MetadataFileIO.scala",
        "ByteBuffer.wrap(content),",
        "ByteBuffer.wrap(Array[Byte](0)),",
        "catalog:io.penstock.catalog.MetadataFilesTest",
    ),
    Mutation(
        "iceberg-before",
        "a table that was Iceberg's before stays so for the session",
        "jvm/catalog/src/main/scala/io/penstock/catalog/SessionCatalog.scala",
        "loaded.remove(identifier)\n          None",
        "loaded.remove(identifier)\n          Some(iceberg.loadTable(identifier))",
        "catalog:io.penstock.catalog.SessionCatalogTest",
    ),
    Mutation(
        "catalog-around",
        "a table's location may lie around other namespaces",
        "jvm/catalog/src/main/scala/io/penstock/catalog/OwnLocations.scala",
        "!others.exists(OwnLocations.within(location, _))",
        "!others.contains(location)",
        "catalog:io.penstock.catalog.IcebergRoutesTest",
    ),
    Mutation(
        "catalog-case",
        "a namespace in capitals is another one",
        "jvm/catalog/src/main/scala/io/penstock/catalog/IcebergRoutes.scala",
        "namespace.levels.toIndexedSeq.map(_.toLowerCase(Locale.ROOT))",
        "namespace.levels.toIndexedSeq.map(_.trim)",
        "catalog:io.penstock.catalog.IcebergRoutesTest",
    ),
    Mutation(
        "index-version",
        "an index entry read from a changed file counts for the version that was listed",
        f"{SKIPPING}/build/ParquetScan.scala",
        "if (file.isVersionOf(fs.getFileStatus(pathOf(root, file)))) Known(entry) else Gone",
        "if (fs.exists(pathOf(root, file))) Known(entry) else Gone",
        "skipping:io.penstock.skipping.build.ReplacedFilesTest",
    ),
    Mutation(
        "index-clock",
        "the driver's clock decides whether a file has settled",
        f"{SKIPPING}/build/IndexWriter.scala",
        'if (root.toUri.getScheme == "file") now() else store.clock()',
        'if (root.toUri.getScheme == "file") now() else now() + 0 * store.clock()',
        "skipping:io.penstock.skipping.build.ReplacedFilesTest",
    ),
    Mutation(
        "index-torn",
        "a file whose writing broke off is published",
        f"{SKIPPING}/model/AtomicFile.scala",
        "catch { case failure: Throwable => discard(out); throw failure }",
        "catch { case failure: Throwable => out.close(); throw failure }",
        "skipping:io.penstock.skipping.model.AtomicFileTest",
    ),
    Mutation(
        "skipping-pushed",
        "a join's keys that Spark has pushed down stay a filter of the scan",
        f"{SKIPPING}/plan/SkipFiles.scala",
        "scan.copy(dataFilters = scan.dataFilters.filterNot(isDynamic))",
        "scan",
        "skipping:io.penstock.skipping.plan.SkipFilesTest",
    ),
    Mutation(
        "skipping-reuse",
        "a scan keeps the identity that it had before its partition filters were planned",
        f"{SKIPPING}/plan/SkipFiles.scala",
        "(!ready || starter.skipping.isOf(SkipFiles.withoutSkipping(scan)))",
        "(!ready || starter.skipping != null)",
        "skipping:io.penstock.skipping.plan.SkipFilesTest",
    ),
    Mutation(
        "skipping-copies",
        "one of two equal sides of joins is filtered, so that Spark reads both",
        f"{SKIPPING}/join/DynamicFilters.scala",
        "case join: Join => sides(join, conf)",
        "case join: Join => sides(join, conf).take(0)",
        "skipping:io.penstock.skipping.join.JoinSkippingTest",
    ),
    Mutation(
        "skipping-index-names",
        "a pattern finds the files of an index among a table's",
        f"{SKIPPING}/index/IndexStore.scala",
        'PartPrefix = "_part-"',
        'PartPrefix = "part-"',
        "skipping:io.penstock.skipping.index.IndexCatalogTest",
    ),
    Mutation(
        "skipping-hang",
        "a run for keys is taken for the query itself and waits for the scan that waits for it",
        f"{SKIPPING}/plan/SkipFiles.scala",
        "skipFiles(SecondRun(plan))",
        "skipFiles(plan)",
        "skipping:io.penstock.skipping.plan.WaitingScansTest",
    ),
    Mutation(
        "skipping-bound",
        "a filter with <= leaves out the bound itself",
        f"{SKIPPING}/model/FileFilter.scala",
        "case LessThanOrEqual(Indexed(column), Constant(value)) => test(column, value)(_.atMost(_))",
        "case LessThanOrEqual(Indexed(column), Constant(value)) => test(column, value)(_.lessThan(_))",
        "skipping:io.penstock.skipping.model.FilterTranslatorTest",
    ),
    Mutation(
        "skipping-or",
        "an OR requires what both of its sides require",
        f"{SKIPPING}/model/FileFilter.scala",
        "merge(flat)(_ union _)",
        "merge(flat)(_ intersect _)",
        "skipping:io.penstock.skipping.model.FileFilterTest",
    ),
)


def copied(to: Path) -> None:
    """Copy the tracked files, so that nothing of the working tree is touched, and the jars beside them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    jars = to / "src" / "penstock" / "jars"
    shutil.copytree(ROOT / "src" / "penstock" / "jars", jars, dirs_exist_ok=True)


def passes(tree: Path, suite: str) -> bool:
    """Run the suite in the tree, with its output in `tree`/last-run.txt."""
    module, _, name = suite.partition(":")
    if name:
        maven = ["mvn", "-f", str(tree / "jvm" / "pom.xml"), "-B", "-ntp", "-q", "test", "-pl", module]
        command = [*maven, f"-Dsuites={name}"]
    else:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", suite]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with (tree / "last-run.txt").open("w", encoding="utf-8") as output:
        return (
            subprocess.run(command, cwd=tree, env=environment, stdout=output, stderr=output, check=False).returncode
            == 0
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    chosen = parser.parse_args()
    known = {one.name: one for one in MUTATIONS}
    if unknown := set(chosen.names) - set(known):
        parser.error(f"unknown defect: {', '.join(sorted(unknown))}; --list prints all names")
    if chosen.list:
        for one in MUTATIONS:
            print(f"{one.name:<18} {one.defect}\n{'':<18} {one.file}, noticed by {one.suite}")
        return 0
    selected = [known[name] for name in chosen.names] or list(MUTATIONS)
    missed = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        tree = Path(directory)
        copied(tree)
        for suite in dict.fromkeys(one.suite for one in selected):
            if not passes(tree, suite):
                print((tree / "last-run.txt").read_text("utf-8")[-4000:], file=sys.stderr)
                print(f"{suite} fails without a defect; its output is above", file=sys.stderr)
                return 1
            print(f"{suite} passes without a defect", flush=True)
        for number, one in enumerate(selected, 1):
            file = tree / one.file
            text = file.read_text("utf-8")
            if text.count(one.old) != 1:
                print(
                    f"{one.file} must contain the text that {one.name} replaces exactly once; update the table",
                    file=sys.stderr,
                )
                return 1
            file.write_text(text.replace(one.old, one.new), "utf-8")
            noticed = not passes(tree, one.suite)
            compiled = "error: compilation failed" not in (tree / "last-run.txt").read_text("utf-8").lower()
            file.write_text(text, "utf-8")
            word = "noticed" if noticed and compiled else "NOT NOTICED" if compiled else "does not compile"
            if word != "noticed":
                missed.append(one.name)
            print(f"{number}/{len(selected)}  {one.name:<18} {word}: {one.defect}", flush=True)
    print(f"{len(selected) - len(missed)} of {len(selected)} defects noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
