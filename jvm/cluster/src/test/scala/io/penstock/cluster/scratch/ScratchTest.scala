package io.penstock.cluster.scratch

import java.io.File
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class ScratchTest extends AnyFunSuite {

  private val MiB = 1L << 20

  private class World(share: Long) {
    val root: Path = Files.createTempDirectory("scratch")
    val memory: Path = root.resolve("memory")
    val disk: Path = Files.createDirectory(root.resolve("disk"))
    val closed: Path = root.resolve("closed")
    var now = 0L

    /** An executor of the application. */
    def executor(): Scratch =
      new Scratch(new MemoryDirectory(memory.toFile), share, name => disk.resolve(name).toFile, closed, () => now)
    val scratch: Scratch = executor()

    def output(map: Int): File = scratch.file(name(s"shuffle_0_${map}_0.data"))
    def inMemory(file: File): Boolean = file.toPath.startsWith(memory)

    /** As Spark does it: written beside its place, then renamed. */
    def commit(file: File, bytes: Int): Unit = {
      val temporary = scratch.sibling(file, new File(s"$file.123e4567-e89b-12d3-a456-426614174000"))
      Files.write(temporary.toPath, new Array[Byte](bytes))
      assert(temporary.renameTo(file))
    }
  }

  private def name(text: String): ScratchName = ScratchName.parse(text).get

  test("a file's place stands until it is there, though room comes and goes meanwhile") {
    val world = new World(2 * MiB)
    val first = world.output(1)
    val second = world.output(2)
    val third = world.output(3)
    assert(Seq(first, second, third).map(world.inMemory) == Seq(true, true, false))
    assert(world.output(1) == first)
    world.commit(first, 10)
    assert(first.delete())
    assert(world.output(3) == third, "a file that will be renamed cannot move to another file system")
    world.commit(third, 10)
    assert(world.output(3) == third)
    assert(world.inMemory(world.output(4)))
  }

  test("a map output in memory is found where other executors of the host look for it") {
    val world = new World(MiB)
    val file = world.output(1)
    world.commit(file, 10)
    val place = world.disk.resolve("shuffle_0_1_0.data")
    assert(Files.size(place) == 10)
    assert(file.delete())
    assert(!Files.isSymbolicLink(place), "what is gone leaves no link")
    world.commit(world.output(1), 20)
    assert(Files.size(place) == 20)
  }

  test("every byte is counted once, where it went") {
    val world = new World(MiB)
    world.commit(world.output(1), 1000)
    world.commit(world.output(2), 300)
    val spill = world.scratch.newFile(name("temp_local_a"))
    Files.write(spill.toPath, new Array[Byte](50))
    assert(world.scratch.reading() == Scratch.Reading(1000, 300, "its budget was used up"))
    assert(spill.delete() && world.output(1).delete() && world.output(2).delete())
    assert(world.scratch.reading() == Scratch.Reading(1000, 350, "its budget was used up"))
  }

  /** As Spark does with the only spill of a task: by its path, to be the map output. */
  private def move(spill: File, target: Path): Unit = {
    Files.move(spill.toPath, target)
    assert(!spill.exists())
  }

  test("a spill that was moved gives its reservation back, and its bytes count once") {
    val world = new World(MiB / 2)
    def spill(number: Int): File = world.scratch.newFile(name(s"temp_shuffle_$number"))
    for (number <- 1 to 10) {
      val file = spill(number)
      assert(world.inMemory(file), number)
      Files.write(file.toPath, new Array[Byte](50))
      move(file, world.root.resolve(s"moved-$number"))
      assert(!file.exists())
    }
    assert(world.scratch.reading() == Scratch.Reading(500, 0, ""))
    assert(Seq(11, 12, 13).map(number => world.inMemory(spill(number))) == Seq(true, true, false))
  }

  test("a spill that was moved sets the usual size of spills, and one that nobody wrote does not") {
    val world = new World(3 * MiB)
    val large = world.scratch.newFile(name("temp_shuffle_1"))
    Files.write(large.toPath, new Array[Byte](2 * MiB.toInt))
    move(large, world.root.resolve("moved"))
    for (number <- 2 to 40) assert(!world.scratch.newFile(name(s"temp_shuffle_$number")).exists())
    val next = Seq(41, 42).map(number => world.inMemory(world.scratch.newFile(name(s"temp_shuffle_$number"))))
    assert(next == Seq(true, false))
  }

  test("a failed attempt's file counts, for its bytes were written") {
    val world = new World(MiB)
    val temporary = world.scratch.sibling(world.output(1), new File(s"${world.output(1)}.tmp"))
    Files.write(temporary.toPath, new Array[Byte](70))
    assert(temporary.delete())
    assert(world.scratch.reading().memoryBytes == 70)
    assert(!Files.isSymbolicLink(world.disk.resolve("shuffle_0_1_0.data")))
  }

  test("what memory lacks by the size of what is there goes to disk") {
    val world = new World(3 * MiB)
    world.commit(world.output(1), (5 * MiB / 2).toInt)
    world.now += 200L * 1000 * 1000
    assert(!world.inMemory(world.output(2)))
  }

  test("memory that failed one executor is closed to all of the application") {
    val world = new World(64 * MiB)
    val other = world.executor()
    assert(world.inMemory(other.file(name("shuffle_0_8_0.data"))))
    world.scratch.close("a task failed")
    assert(!world.inMemory(world.output(1)))
    assert(!world.inMemory(other.file(name("shuffle_0_9_0.data"))))
    assert(other.reading().fellOver == "a task failed")
  }

  test("a memory directory that cannot be made or is no directory is closed, and no error") {
    val world = new World(64 * MiB)
    Files.write(world.memory, Array[Byte](1))
    assert(!world.inMemory(world.output(1)))
    assert(world.scratch.reading().fellOver.contains("cannot be written"))
  }
}
