package io.penstock.fs.cache

import java.nio.ByteBuffer
import java.nio.file.{Files, StandardCopyOption}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.security.alias.CredentialProviderFactory
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.penstock.fs.testing.Trees

class PageCacheSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private val Roomy = 64L * 1024 * 1024

  test("a page that was filled is found by every cache on the same directory, and after a restart") {
    val of = version("a", 2.5)
    val first = cache(memory(Roomy))
    for (index <- 0 to 2) fill(first, of, index)
    val second = cache(memory(Roomy))
    for (index <- 0 to 2; reader <- Seq(first, second)) read(reader, of, index) shouldBe Some(bytesOf(of, index).toSeq)
    second.find(of, 3) shouldBe None
  }

  test("any range of a page reads the same into arrays and into buffers on and off the heap") {
    val of = version("a", 1)
    fill(cache(memory(Roomy)), of, 0)
    val whole = bytesOf(of, 0)
    for ((position, length) <- Seq(0 -> 1, 65535 -> 2, 65536 -> 65536, 1000 -> 100000, 131071 -> 1, 5 -> 0)) {
      val expected = whole.slice(position, position + length).toSeq
      val page = cache(memory(Roomy)).find(of, 0).get
      val array = new Array[Byte](length + 3)
      page.read(position, array, 3, length) shouldBe true
      array.drop(3).toSeq shouldBe expected
      for (buffer <- Seq(ByteBuffer.allocate(length), ByteBuffer.allocateDirect(length))) {
        page.read(position, buffer) shouldBe true
        buffer.remaining shouldBe 0
        Array.tabulate(length)(buffer.get(_)).toSeq shouldBe expected
      }
      page.close()
    }
  }

  test("another version of an object has none of the old one's pages") {
    val old = version("a", 1)
    val one = cache(memory(Roomy))
    fill(one, old, 0)
    one.find(old.copy(etag = "new"), 0) shouldBe None
    one.find(old.copy(length = old.length - 1), 0) shouldBe None
  }

  test("a page stays readable for who has it while others evict it") {
    val of = version("a", 1)
    val one = cache(memory(Roomy))
    fill(one, of, 0)
    val page = one.find(of, 0).get
    cache(memory(Roomy)).forget(of)
    for (_ <- 1 to 3) one.sweep()
    one.find(of, 0) shouldBe None
    val bytes = new Array[Byte](page.length)
    page.read(0, bytes, 0, bytes.length) shouldBe true
    bytes.toSeq shouldBe bytesOf(of, 0).toSeq
    page.close()
    page.close()
    an[IllegalStateException] should be thrownBy page.read(0, bytes, 0, 1)
  }

  test("forgetting an object removes its pages' files from every tier and no other's") {
    val (gone, kept) = (version("gone", 3), version("kept", 1))
    val one = cache(memory(Roomy), disk(Roomy))
    for (index <- 0 until 3) fill(one, gone, index)
    fill(one, kept, 0)
    one.forget(gone)
    filesOf(memory(Roomy)) should have size 1
    read(one, kept, 0) shouldBe Some(bytesOf(kept, 0).toSeq)
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("a page that gets another name is the same file, found by that name alone, after a restart too") {
    val (part, whole) = (version("part", 1.5), version("whole", 3.5))
    val one = cache(memory(Roomy), disk(Roomy))
    for (index <- 0 to 1) fill(one, part, index)
    val used = tableOf(memory(Roomy)).status.used
    val inode = Files.getAttribute(filesOf(memory(Roomy)).minBy(-Files.size(_)), "unix:ino")
    for (index <- 0 to 1) one.rename(part, index.toLong, whole, index + 2L)
    for (reader <- Seq(one, cache(memory(Roomy))); index <- 0 to 1) {
      read(reader, part, index) shouldBe None
      read(reader, whole, index + 2L) shouldBe Some(bytesOf(part, index).toSeq)
    }
    tableOf(memory(Roomy)).status.used shouldBe used
    Files.getAttribute(filesOf(memory(Roomy)).minBy(-Files.size(_)), "unix:ino") shouldBe inode
  }

  test("a page that gets the name of one that is there is gone, as is one of another length") {
    val (part, whole) = (version("part", 2.5), version("whole", 3))
    val one = cache(memory(Roomy))
    for ((of, index) <- Seq(part -> 0L, part -> 2L, whole -> 0L)) fill(one, of, index)
    one.rename(part, 0, whole, 0)
    one.rename(part, 2, whole, 2)
    one.rename(part, 1, whole, 1)
    read(one, whole, 0) shouldBe Some(bytesOf(whole, 0).toSeq)
    filesOf(memory(Roomy)) should have size 1
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("a page that gets the name of one on another tier is gone, and what leaves that name leaves no other there") {
    val (part, whole) = (version("part", 1), version("whole", 2))
    fill(cache(memory(Roomy)), whole, 0)
    fill(cache(disk(Roomy)), part, 0)
    val one = cache(memory(Roomy), disk(Roomy))
    one.rename(part, 0, whole, 0)
    filesOf(disk(Roomy)) shouldBe empty
    one.rename(whole, 0, whole, 1)
    read(one, whole, 0) shouldBe None
    read(one, whole, 1) shouldBe Some(bytesOf(whole, 0).toSeq)
  }

  test("a page that gets another name while its tier has no room is kept, and pushes no other out") {
    val budget = 3L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget))
    for (name <- Seq("other", "next", "part")) fill(one, version(name, 1), 0)
    one.rename(version("part", 1), 0, version("whole", 1), 0)
    read(one, version("whole", 1), 0) shouldBe Some(bytesOf(version("part", 1), 0).toSeq)
    for (name <- Seq("other", "next")) read(one, version(name, 1), 0) should not be None
    tableOf(memory(budget)).status.used shouldBe budget
  }

  test("what is written takes the place of what was read once without a copy, and of what was read again with one") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    def write(name: String): Unit = one.keep(version(name, 1), 0, ByteBuffer.wrap(bytesOf(version(name, 1), 0)))
    def readAll(name: String): Unit = {
      now.addAndGet(EvictionPolicy.SameUse)
      for (n <- 0 until 4) read(one, version(s"$name-$n", 1), 0) should not be None
    }
    for (name <- Seq("output", "next", "third")) {
      for (n <- 0 until 8) write(s"$name-$n")
      readAll(name)
    }
    filesOf(memory(budget)) should have size 4
    filesOf(disk(Roomy)) shouldBe empty
    readAll("third")
    for (n <- 0 until 4; _ = now.addAndGet(2 * EvictionPolicy.DecayAfter)) write(s"more-$n")
    filesOf(disk(Roomy)) should not be empty
  }

  test("a page left behind by a writer is kept once") {
    val of = version("a", 1)
    val one = cache(memory(Roomy))
    val data = ByteBuffer.wrap(bytesOf(of, 0))
    one.keep(of, 0, data)
    one.keep(of, 0, data)
    data.position() shouldBe 0
    read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
    tableOf(memory(Roomy)).status.pages shouldBe 1
  }

  test("the budget holds, whatever is brought") {
    val budget = 10L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget))
    for (n <- 0 until 40) {
      fill(one, version(s"object-$n", 1), 0)
      tableOf(memory(budget)).status.used should be <= budget
    }
    filesOf(memory(budget)) should have size 10
    tableOf(memory(budget)).status.evictions shouldBe 30
  }

  test("what leaves memory goes to disk while disk has room") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    val objects = (0 until 12).map(n => version(s"object-$n", 1))
    objects.foreach(fill(one, _, 0))
    filesOf(memory(budget)) should have size 4
    filesOf(disk(Roomy)) should have size 8
    for (of <- objects) read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
  }

  test(
    "a scan that memory has no room for goes to disk without pushing anything there, and past both when both are full"
  ) {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(2 * budget))
    val objects = (0 until 20).map(n => version(s"object-$n", 1))
    one.room shouldBe 3 * budget
    objects.map(fill(one, _, 0, scanned = true)) shouldBe objects.indices.map(_ < 12)
    one.room shouldBe 0
    filesOf(memory(budget)) should have size 4
    filesOf(disk(2 * budget)) should have size 8
    for (of <- objects.take(12)) read(one, of, 0) shouldBe Some(bytesOf(of, 0).toSeq)
    tableOf(memory(budget)).status.evictions + tableOf(disk(budget)).status.evictions shouldBe 0
  }

  test("what is written pushes out what was scanned, stays before what is scanned, and goes to no disk") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(Roomy))
    for (n <- 0 until 4) fill(one, version(s"scanned-$n", 1), 0, scanned = true)
    for (n <- 0 until 8) one.keep(version(s"output-$n", 1), 0, ByteBuffer.wrap(bytesOf(version(s"output-$n", 1), 0)))
    filesOf(disk(Roomy)) shouldBe empty
    for (n <- 8 until 12) fill(one, version(s"scanned-$n", 1), 0, scanned = true)
    for (n <- 0 until 4) read(one, version(s"output-$n", 1), 0) should not be None
    filesOf(disk(Roomy)) should have size 4
  }

  test("what leaves memory for a full disk goes there only if it was found before") {
    val budget = 4L * (PageSize + SlotWord.BlockSize)
    val one = cache(memory(budget), disk(budget))
    val scanned = (0 until 8).map(n => version(s"scanned-$n", 1))
    scanned.foreach(fill(one, _, 0))
    val onDisk = filesOf(disk(budget)).toSet
    fill(one, version("more", 1), 0)
    filesOf(disk(budget)).toSet shouldBe onDisk
    now.addAndGet(EvictionPolicy.SameUse)
    for (of <- scanned) read(one, of, 0)
    for (n <- 0 until 4; _ = now.addAndGet(2 * EvictionPolicy.DecayAfter)) fill(one, version(s"other-$n", 1), 0)
    filesOf(disk(budget)).toSet should not be onDisk
  }
}

class ScopedPageCacheTest extends AnyFunSuite {

  private val Bucket = "bucket"
  private val Provider = "fs.s3a.aws.credentials.provider"
  private val Profile = Provider -> "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
  private val Role = Provider -> "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"

  private def scope(settings: (String, String)*)(environment: (String, String)*): Option[String] = {
    // With Hadoop's own settings, among them S3A's usual sources of credentials.
    val conf = new Configuration()
    settings.foreach { case (name, value) => conf.set(name, value) }
    // A machine's own credentials are nothing to these tests.
    val nowhere = Seq("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "HOME").map(_ -> "/nowhere")
    ScopedPageCache.scopeOf(conf, Bucket, (nowhere ++ environment).toMap)
  }

  private def keys(name: String): Seq[(String, String)] =
    Seq("fs.s3a.access.key" -> name, "fs.s3a.secret.key" -> "secret")

  private lazy val alice = scope(keys("ALICE"): _*)()

  private def withFile[A](text: String)(work: String => A): A = {
    val file = Files.createTempFile("credentials-", "")
    try work(Files.writeString(file, text).toString)
    finally Files.delete(file)
  }

  /** Works with the address of a Hadoop credential provider, a keystore of its own, with these secrets. */
  private def withKeystore[A](secrets: (String, String)*)(work: String => A): A = {
    val directory = Files.createTempDirectory("keystore-")
    val address = s"localjceks://file$directory/keys.jceks"
    val conf = new Configuration(false)
    conf.set("hadoop.security.credential.provider.path", address)
    val provider = CredentialProviderFactory.getProviders(conf).get(0)
    for ((name, secret) <- secrets) provider.createCredentialEntry(name, secret.toCharArray): Unit
    provider.flush()
    try work(address)
    finally Trees.delete(directory)
  }

  private val Keystore = "hadoop.security.credential.provider.path"

  test("an access key has a scope of its own, wherever it comes from, and none of it can be seen there") {
    assert(alice.exists(_.matches("[0-9a-f]{16}")))
    assert(alice != scope(keys("BOB"): _*)())
    assert(scope()("AWS_ACCESS_KEY_ID" -> "ALICE", "AWS_SECRET_ACCESS_KEY" -> "secret") == alice)
    withFile("[lake]\naws_access_key_id = ALICE\naws_secret_access_key = secret\n") { file =>
      val lake = Seq("AWS_SHARED_CREDENTIALS_FILE" -> file, "AWS_PROFILE" -> "lake")
      val refreshing = Provider -> "io.penstock.fs.credentials.RefreshingCredentialsProvider"
      val hadoops = Provider -> "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
      for (provider <- Seq(Profile, refreshing, hadoops)) assert(scope(provider)(lake: _*) == alice)
      // A key that nobody uses is no identity.
      assert(scope(keys("BOB") :+ Profile: _*)(lake: _*) == alice)
    }
  }

  test("users of one account who keep their keys in Hadoop's credential providers have scopes of their own") {
    withKeystore(keys("ALICE"): _*) { alices =>
      withKeystore(keys("BOB"): _*) { bobs =>
        assert(scope(Keystore -> alices)() == alice)
        assert(scope(Keystore -> bobs)() == scope(keys("BOB"): _*)())
        // As S3A, which looks there before it looks at the settings.
        assert(scope(keys("ALICE") :+ (Keystore -> bobs): _*)() == scope(keys("BOB"): _*)())
      }
    }
  }

  test("a bucket's own keys in a credential provider are those of its scope") {
    val own = keys("ALICE").map { case (name, value) => name.replace("fs.s3a.", s"fs.s3a.bucket.$Bucket.") -> value }
    val others = keys("BOB").map { case (name, value) => name.replace("fs.s3a.", "fs.s3a.bucket.other.") -> value }
    withKeystore(keys("CAROL") ++ own ++ others: _*)(keystore => assert(scope(Keystore -> keystore)() == alice))
  }

  test("a session's key counts where the session's token is there, and another source otherwise") {
    val temporary = Provider -> "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    val anonymous = Provider -> s"${temporary._2},org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    val session = keys("ALICE") :+ ("fs.s3a.session.token" -> "token")
    assert(scope(session :+ temporary: _*)() == alice)
    assert(scope(session :+ anonymous: _*)() == alice)
    val nobody = scope(keys("ALICE") :+ anonymous: _*)()
    assert(nobody.isDefined && nobody != alice)
    assert(scope(Provider -> "com.amazonaws.auth.AnonymousAWSCredentials")() == nobody)
  }

  test("where it is unknown whose the credentials are there is no scope, whatever keys are there besides") {
    assert(scope()().isEmpty)
    val unknown = Seq(
      Seq(Role),
      Seq(Provider -> "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"),
      Seq(Provider -> "example.Custom,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"),
      Seq("fs.s3a.delegation.token.binding" -> "org.apache.hadoop.fs.s3a.auth.delegation.SessionTokenBinding"),
      Seq(Provider -> "example.Mine", "fs.s3a.aws.credentials.provider.mapping" -> "example.Mine=example.Other")
    )
    for (settings <- unknown) {
      val environment = Seq("AWS_ACCESS_KEY_ID" -> "ALICE", "AWS_SECRET_ACCESS_KEY" -> "secret")
      assert(scope(keys("ALICE") ++ settings: _*)(environment: _*).isEmpty, settings)
    }
    val keyed = "aws_access_key_id = ALICE\naws_secret_access_key = secret\n"
    for (other <- Seq("role_arn = arn:aws:iam::1:role/r\nsource_profile = lake\n", "sso_account_id = 1\n"))
      withFile(s"[lake]\n$keyed$other") { file =>
        assert(scope(Profile)("AWS_SHARED_CREDENTIALS_FILE" -> file, "AWS_PROFILE" -> "lake").isEmpty)
      }
  }

  test("a file system whose user is unknown has a scope that no other has, and finds it again") {
    def alone(instance: String) = {
      val conf = new Configuration(false)
      if (instance != null) conf.set(CacheSettings.Instance, instance)
      ScopedPageCache.aloneScope(conf)
    }
    assert(alone("one") == alone("one") && alone("one") != alone("another"))
    assert(alone(null) != alone(null))
  }

  test("those who are to share share, whatever their keys are at the moment") {
    val shared = CacheSettings.Scope -> "lake"
    assert(scope(keys("ASIA1") :+ shared: _*)() == scope(keys("ASIA2") :+ shared: _*)())
    assert(scope(Role, shared)() == scope(shared)())
    // Nobody's access key is taken for a name.
    assert(scope(CacheSettings.Scope -> "ALICE")() != alice)
  }

  test("a version is named once for each scope that asks in turn, and never by another's scope") {
    val version = ObjectVersion("bucket", "key", 1, "etag")
    val alice = version.scoped("alice")
    assert(alice == version.copy(scope = "alice"))
    assert(version.scoped("alice") eq alice)
    assert(version.scoped("bob").page(0, 1024) != alice.page(0, 1024))
    assert(version.scoped("alice") == alice && version == ObjectVersion("bucket", "key", 1, "etag"))
  }
}

/**
 * Random histories on several caches over one directory, as several processes have them, against a plain set of pages.
 */
class PageCacheModelSuite extends AnyFunSuite with Matchers with TemporaryTiers with ScalaCheckPropertyChecks {

  private sealed trait Step
  private case class Fill(cache: Int, page: Int, scanned: Boolean) extends Step
  private case class Keep(cache: Int, page: Int) extends Step
  private case class Find(cache: Int, page: Int) extends Step
  private case class Rename(cache: Int, page: Int, to: Int) extends Step
  private case class Forget(cache: Int, theObject: Int) extends Step
  private case class Restart(cache: Int) extends Step
  private case class Sweep(cache: Int) extends Step
  private case class Wait(seconds: Int) extends Step
  private case class Damage(file: Int, at: Int) extends Step

  private val Caches = 3
  private val Objects = 5
  private val PagesEach = 3
  private val PageFootprint = (PageSize + SlotWord.BlockSize).toLong

  private def objectOf(page: Int): ObjectVersion = version(s"object-${page / PagesEach}", PagesEach.toDouble)
  private def indexOf(page: Int): Long = (page % PagesEach).toLong

  private val steps: Gen[List[Step]] = {
    val cache = Gen.choose(0, Caches - 1)
    val page = Gen.choose(0, Objects * PagesEach - 1)
    val step: Gen[Step] = Gen.frequency(
      8 -> Gen.zip(cache, page, Gen.oneOf(true, false)).map((Fill.apply _).tupled),
      2 -> Gen.zip(cache, page).map((Keep.apply _).tupled),
      8 -> Gen.zip(cache, page).map((Find.apply _).tupled),
      2 -> Gen.zip(cache, page, page).suchThat { case (_, from, to) => from != to }.map((Rename.apply _).tupled),
      1 -> Gen.zip(cache, Gen.choose(0, Objects - 1)).map((Forget.apply _).tupled),
      1 -> cache.map(Restart),
      1 -> cache.map(Sweep),
      1 -> Gen.oneOf(1, EvictionPolicy.SameUse, EvictionPolicy.DecayAfter).map(Wait),
      1 -> Gen.zip(Gen.choose(0, 100), Gen.choose(0, PageSize - 1)).map((Damage.apply _).tupled)
    )
    Gen.listOfN(60, step)
  }

  /** Replaces a page's file by one with a wrong byte, as a failing disk would the next time it is read. */
  private def damage(tiers: Seq[TierSettings], file: Int, at: Int): Option[PageKey] = {
    val files = tiers.flatMap(filesOf).sorted
    if (files.isEmpty) None
    else {
      val victim = files(file % files.size)
      val wrong = victim.resolveSibling("wrong")
      Files.copy(victim, wrong)
      flip(wrong, at.toLong)
      Files.move(wrong, victim, StandardCopyOption.REPLACE_EXISTING)
      TierDirectory.keyOf(victim)
    }
  }

  /**
   * Runs a history.
   *
   * @param evicts
   *   whether pages may go that nobody forgot
   */
  private def check(history: List[Step], tiers: Seq[TierSettings], evicts: Boolean): Unit = {
    val caches = Array.fill(Caches)(cache(tiers: _*))
    val there = mutable.Set.empty[Int]
    // Whose bytes a page may have: its own, and those of any page that ever got its name. A cache that mapped it before
    // keeps what it mapped, since pages of one name have the same bytes everywhere but in this test.
    val bytesFrom = mutable.Map.empty[Int, Set[Int]].withDefault(Set(_))
    val doubtful = mutable.Set.empty[PageKey]
    def keyOf(page: Int): PageKey = objectOf(page).page(indexOf(page), PageSize)
    for (step <- history) {
      step match {
        case Fill(n, page, scanned) =>
          caches(n).claim(objectOf(page), indexOf(page), 0) match {
            case granted: Claim.Granted =>
              val kept = granted.fill(ByteBuffer.wrap(bytesOf(objectOf(page), indexOf(page))), scanned)
              if (kept) there += page else evicts shouldBe true
            case Claim.Arrived(arrived) =>
              arrived.close()
              there += page
            case Claim.Busy => fail("nobody else is fetching")
          }
        case Keep(n, page) =>
          caches(n).keep(objectOf(page), indexOf(page), ByteBuffer.wrap(bytesOf(objectOf(page), indexOf(page))))
          there += page
        case Rename(n, page, to) =>
          caches(n).rename(objectOf(page), indexOf(page), objectOf(to), indexOf(to))
          if (there.remove(page)) there += to
          bytesFrom(to) = bytesFrom(to) ++ bytesFrom(page)
          if (doubtful(keyOf(page))) doubtful += keyOf(to)
        case Find(n, page) =>
          read(caches(n), objectOf(page), indexOf(page)) match {
            case Some(bytes) =>
              there should contain(page)
              bytesFrom(page).exists(from => bytes == bytesOf(objectOf(from), indexOf(from)).toSeq) shouldBe true
            case None => if (!evicts && !doubtful(keyOf(page))) there should not contain page
          }
        case Forget(n, number) =>
          caches(n).forget(objectOf(number * PagesEach))
          there.filterInPlace(_ / PagesEach != number)
        case Restart(n) => caches(n) = cache(tiers: _*)
        case Sweep(n) => caches(n).sweep()
        case Wait(seconds) => now.addAndGet(seconds)
        case Damage(file, at) => doubtful ++= damage(tiers, file, at)
      }
      for (tier <- tiers if Files.exists(tier.directory)) {
        val status = tableOf(tier).status
        status.used should be <= status.budget
        status.pages shouldBe filesOf(tier).size
        status.used shouldBe status.pages * PageFootprint
      }
    }
  }

  private def histories(tiers: => Seq[TierSettings], evicts: Boolean)(without: PartialFunction[Step, Unit]): Unit =
    forAll(steps, minSuccessful(25)) { history =>
      try check(history.filterNot(without.isDefinedAt), tiers, evicts)
      finally tiers.foreach(tier => PrivateFiles.deleteTree(tier.directory))
    }

  test("with room for all, what was filled is found by every cache until it is forgotten") {
    histories(Seq(memory(100 * PageFootprint)), evicts = false)(PartialFunction.empty)
  }

  test("with room for some, what is found is right and the budget holds") {
    histories(Seq(memory(5 * PageFootprint)), evicts = true)(PartialFunction.empty)
  }

  private def twoTiers = Seq(memory(5 * PageFootprint), disk(100 * PageFootprint))

  test("with room for all on two tiers together, nothing that is read is lost on the way from memory to disk") {
    histories(twoTiers, evicts = false) { case Keep(_, _) => () }
  }

  test("what is written may push out of both tiers what was not read, and never makes a wrong page") {
    histories(twoTiers, evicts = true)(PartialFunction.empty)
  }
}
