package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.matchers.should.Matchers
import org.scalatest.time.SpanSugar._

/** Real processes on one tier, killed at any moment. */
class ProcessSuite extends AnyFunSuite with Matchers with TemporaryTiers {

  private def tier = PageChurn.tier(directory.resolve("tier"))

  /**
   * @param within
   *   a command that runs the one it is given
   * @param shell
   *   what a shell does first there
   */
  private def start(arguments: Seq[String], within: Seq[String] = Nil, shell: String = ""): Process = {
    val java = Path.of(System.getProperty("java.home"), "bin", "java").toString
    val command = Seq(
      java,
      "-Xmx64m",
      "-XX:TieredStopAtLevel=1",
      "-XX:+UseSerialGC",
      "-XX:-UsePerfData",
      "-cp",
      System.getProperty("java.class.path"),
      PageChurn.getClass.getName.stripSuffix("$"),
      tier.directory.toString
    ) ++ arguments
    new ProcessBuilder((within ++ Seq("sh", "-c", shell + "exec \"$@\"", "sh") ++ command).asJava)
      .redirectError(ProcessBuilder.Redirect.INHERIT)
      .start()
  }

  private def startReady(arguments: String*): Process = {
    val process = start(arguments)
    process.inputReader.readLine() shouldBe "ready"
    process
  }

  private def kill(process: Process): Unit = {
    process.destroyForcibly().waitFor(60, TimeUnit.SECONDS) shouldBe true
    // SIGKILL, not a process that had ended by itself because it saw a wrong byte.
    process.exitValue shouldBe 128 + 9
  }

  test("processes killed while they fill and evict leave no torn page, no stuck claim, and the budget kept") {
    val random = new Random(4)
    val rounds = 2
    val processes = 3
    for (round <- 1 to rounds) {
      val running = (1 to processes).map(n => startReady("churn", s"${round * 10 + n}"))
      withClue("they are in the middle of their work")(
        eventually(timeout(60.seconds))(filesOf(tier).size should be > 10)
      )
      running.foreach { process =>
        Thread.sleep(100L + random.nextInt(200))
        kill(process)
      }
    }
    val killed = rounds * processes
    val files = filesOf(tier)
    files.size should be > 10
    files.map(Files.size(_)).sum should be <= PageChurn.Budget + killed * PageChurn.Footprint

    val survivor = cache(tier)
    for (of <- PageChurn.objects) {
      PageChurn.soundOrGone(survivor, of) shouldBe true
      survivor.claim(of, 0, 0) match {
        case granted: Claim.Granted => granted.abandon()
        case Claim.Arrived(page) => page.close()
        case Claim.Busy => fail("a dead process still has its claim")
      }
    }

    // Later than any slot of the dead is respected.
    now.set((System.currentTimeMillis / 1000).toInt + 2 * EvictionPolicy.Abandoned)
    val directoryOf = TierDirectory.existing(tier.directory).get
    val table = tableOf(tier)
    val found = new TierAudit(directoryOf, table, () => now.get * 1000L).verify((_, _) => ())
    found.damaged shouldBe 0
    found.pages shouldBe table.status.pages
    for (of <- PageChurn.objects) survivor.keep(of, 0, ByteBuffer.wrap(PageChurn.bytesOf(of)))
    val pages = table.status.pages
    withClue("room that the dead took is given back")(pages shouldBe PageChurn.Budget / PageChurn.Footprint)
    table.status.used shouldBe PageChurn.Budget
    filesOf(tier) should have size pages
  }

  test("the claim of a process that is killed is the next one's who waits") {
    val process = startReady("claim")
    val waiter = cache(tier)
    val theObject = PageChurn.objects.head
    waiter.claim(theObject, 0, 0) shouldBe Claim.Busy
    process.destroyForcibly()
    waiter.claim(theObject, 0, 60000) shouldBe a[Claim.Granted]
  }

  test("a tier that cannot take a page's bytes keeps quiet and gives what it has until it is found out") {
    cache(tier).keep(PageChurn.objects.head, 0, ByteBuffer.wrap(PageChurn.bytesOf(PageChurn.objects.head)))
    // In units of 512 bytes, or of 1024 where sh is bash: in both cases less than a page and more than the table.
    ended(start(Seq("write"), shell = "ulimit -f 100; ")) shouldBe 0
    filesOf(tier) should have size 1
  }

  test(
    "a file system that is smaller than the budget keeps what it can, and one that others have filled keeps nothing"
  ) {
    val own = Seq("unshare", "--map-root-user", "--mount")
    val mount = Seq("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory.toString)
    assume(ended(new ProcessBuilder((own ++ mount).asJava).start()) == 0, "nobody may mount a file system here")
    ended(start(Seq("full"), within = own, shell = mount.mkString("", " ", " && "))) shouldBe 0
  }

  private def ended(process: Process): Int = {
    process.waitFor(120, TimeUnit.SECONDS) shouldBe true
    process.exitValue
  }
}

/**
 * What [[ProcessSuite]] starts as a process of its own: `PageChurn DIRECTORY ACTION [SEED]`. It says `ready` once it is
 * at work, and ends with another code than 0 when it sees what must not be.
 */
object PageChurn {

  val PageSize: Int = 128 * 1024
  val Footprint: Long = (PageSize + SlotWord.BlockSize).toLong
  val Budget: Long = 20 * Footprint
  private val Objects = 60

  private[cache] def tier(directory: Path): TierSettings =
    TierSettings(TierKind.Memory, directory, TierSize.Bytes(Budget), PageSize)

  private[cache] val objects: Vector[ObjectVersion] =
    Vector.tabulate(Objects)(n => ObjectVersion("lake", s"object-$n", PageSize.toLong, s"etag-$n"))

  private[cache] def bytesOf(of: ObjectVersion): Array[Byte] = {
    val bytes = new Array[Byte](PageSize)
    new Random(of.key.hashCode).nextBytes(bytes)
    bytes
  }

  private[cache] def soundOrGone(cache: PageCache, of: ObjectVersion): Boolean = cache.find(of, 0).forall { page =>
    val bytes = new Array[Byte](page.length)
    try page.read(0, bytes, 0, bytes.length) && bytes.sameElements(bytesOf(of))
    finally page.close()
  }

  def main(arguments: Array[String]): Unit = {
    val cache = PageCaches.create(Vector(tier(Path.of(arguments(0)))))
    arguments(1) match {
      case "churn" => churn(cache, new Random(arguments(2).toInt))
      case "claim" => claimForEver(cache)
      case "write" => writeBeyondLimit(cache)
      case "full" => fillUp(cache, Path.of(arguments(0)).resolveSibling("of-others"))
    }
  }

  private def ready(): Unit = {
    System.out.println("ready")
    System.out.flush()
  }

  /** Finds, fills, keeps and forgets until it is killed. */
  private def churn(cache: TieredPageCache, random: Random): Unit = {
    ready()
    @tailrec def again(): Unit = {
      val of = objects(random.nextInt(Objects))
      random.nextInt(20) match {
        case 0 => cache.forget(of)
        case 1 => cache.sweep()
        case 2 => cache.keep(of, 0, ByteBuffer.wrap(bytesOf(of)))
        case _ =>
          if (!soundOrGone(cache, of)) sys.exit(3)
          cache.claim(of, 0, 100) match {
            case granted: Claim.Granted => granted.fill(ByteBuffer.wrap(bytesOf(of)))
            case Claim.Arrived(page) => page.close()
            case Claim.Busy => ()
          }
      }
      again()
    }
    again()
  }

  private def claimForEver(cache: PageCache): Unit = cache.claim(objects.head, 0, 0) match {
    case _: Claim.Granted =>
      ready()
      // As long as the test lives.
      System.in.read()
      ()
    case _ => sys.exit(4)
  }

  /** Started with a limit on the size of files that a page exceeds. */
  private def writeBeyondLimit(cache: PageCache): Unit = {
    val found = cache.find(objects(0), 0).map(_.close())
    cache.keep(objects(1), 0, ByteBuffer.wrap(bytesOf(objects(1))))
    val lost = cache.find(objects(1), 0)
    sys.exit(if (found.isDefined && lost.isEmpty && !cache.keeps) 0 else 5)
  }

  /** On a file system that has room for some pages less than the budget. */
  private def fillUp(cache: TieredPageCache, ofOthers: Path): Unit = {
    def keepAll(): Int = {
      objects.foreach(of => cache.keep(of, 0, ByteBuffer.wrap(bytesOf(of))))
      if (!objects.forall(soundOrGone(cache, _))) sys.exit(3)
      objects.count(cache.has(_, 0))
    }
    if (keepAll() < 5 || !cache.keeps) sys.exit(6)
    objects.foreach(cache.forget)
    val file = Files.newOutputStream(ofOthers)
    try while (true) file.write(new Array[Byte](4096))
    catch { case _: IOException => () }
    finally file.close()
    sys.exit(if (keepAll() == 0) 0 else 7)
  }
}
