package io.penstock.fs.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}

import scala.annotation.tailrec
import scala.util.Random

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

  private[cache] val objects: Vector[ObjectIdentity] =
    Vector.tabulate(Objects)(n => ObjectIdentity("lake", s"object-$n", PageSize.toLong, s"etag-$n"))

  private[cache] def bytesOf(of: ObjectIdentity): Array[Byte] = {
    val bytes = new Array[Byte](PageSize)
    new Random(of.key.hashCode).nextBytes(bytes)
    bytes
  }

  private[cache] def soundOrGone(cache: PageCache, of: ObjectIdentity): Boolean = cache.find(of, 0).forall { page =>
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
