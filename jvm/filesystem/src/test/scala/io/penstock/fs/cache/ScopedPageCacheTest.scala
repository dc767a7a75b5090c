package io.penstock.fs.cache

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.penstock.fs.CacheSettings

class ScopedPageCacheTest extends AnyFunSuite {

  private def scope(settings: (String, String)*)(environment: (String, String)*): String = {
    val conf = new Configuration(false)
    settings.foreach { case (name, value) => conf.set(name, value) }
    // A machine's own credentials are nothing to these tests.
    val nowhere = "AWS_SHARED_CREDENTIALS_FILE" -> "/nowhere"
    ScopedPageCache.scopeOf(conf, (nowhere +: environment).toMap)
  }

  test("an access key has a scope of its own, wherever it comes from, and none of it can be seen there") {
    val file = Files.createTempFile("credentials-", "")
    Files.writeString(file, "[lake]\naws_access_key_id = ALICE\naws_secret_access_key = secret\n")
    val alice = Seq(
      scope("fs.s3a.access.key" -> "ALICE")(),
      scope()("AWS_ACCESS_KEY_ID" -> "ALICE"),
      scope()("AWS_SHARED_CREDENTIALS_FILE" -> file.toString, "AWS_PROFILE" -> "lake")
    )
    Files.delete(file)
    assert(alice.distinct.size == 1)
    assert(alice.head != scope("fs.s3a.access.key" -> "BOB")() && alice.head != scope()())
    assert(alice.head.matches("[0-9a-f]{16}"))
  }

  test("those who are told to share share, whatever their keys are at the moment") {
    val shared = CacheSettings.Scope -> "lake"
    assert(
      scope(shared, "fs.s3a.access.key" -> "ASIA1")() == scope(shared, "fs.s3a.access.key" -> "ASIA2")()
    )
    // Nobody's access key is taken for a name.
    assert(scope(CacheSettings.Scope -> "ALICE")() != scope("fs.s3a.access.key" -> "ALICE")())
  }

  test("a version is named once for each scope that asks in turn, and never by another's scope") {
    val version = ObjectIdentity("bucket", "key", 1, "etag")
    val alice = version.scoped("alice")
    assert(alice == version.copy(scope = "alice"))
    assert(version.scoped("alice") eq alice)
    assert(version.scoped("bob").page(0, 1024) != alice.page(0, 1024))
    assert(version.scoped("alice") == alice && version == ObjectIdentity("bucket", "key", 1, "etag"))
  }
}
