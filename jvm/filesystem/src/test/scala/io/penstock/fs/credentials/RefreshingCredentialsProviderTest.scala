package io.penstock.fs.credentials

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials
import software.amazon.awssdk.core.exception.SdkClientException

class RefreshingCredentialsProviderTest extends AnyFunSuite {

  /** A file, a clock, and who reads the one by the other. */
  private class World {
    val file: Path = Files.createTempDirectory("credentials").resolve("aws-credentials")
    var now = 1000000L
    var refusals = 0L
    var pauses = 0
    var whilePausing: () => Unit = () => ()

    lazy val provider = new RefreshingCredentialsProvider(
      new CredentialsFile(file, "penstock"),
      () => now,
      milliseconds => {
        pauses += 1
        now += milliseconds
        whilePausing()
      },
      () => refusals
    )

    def put(key: String, expiresAt: Option[Long] = None): Unit = {
      val token = expiresAt.fold("")(at => s"aws_session_token = t-$key\nexpires_at = ${at / 1000.0}\n")
      val text = s"[penstock]\naws_access_key_id = $key\naws_secret_access_key = s-$key\n$token"
      val fresh = Files.writeString(file.resolveSibling("fresh"), text, UTF_8)
      Files.move(fresh, file, ATOMIC_MOVE)
    }

    def key(): String = provider.resolveCredentials().accessKeyId
  }

  private def world(test: World => Unit): Unit = test(new World)

  test("what replaces the file signs the requests of a second later")(world { world =>
    world.put("first", Some(2000000))
    assert(world.key() === "first")
    world.put("other", Some(3000000))
    assert(world.key() === "first")
    world.now += 1000
    assert(world.key() === "other")
    assert(world.provider.resolveCredentials().asInstanceOf[AwsSessionCredentials].sessionToken === "t-other")
  })

  test("after a refusal the file is looked at for the very next request")(world { world =>
    world.put("first", Some(2000000))
    assert(world.key() === "first")
    world.put("other", Some(3000000))
    world.refusals += 1
    assert(world.key() === "other")
  })

  test("a request waits for credentials that come a little late, and is then signed with them")(world { world =>
    world.put("first", Some(world.now + 500))
    assert(world.key() === "first")
    world.now += 600
    world.whilePausing = () => if (world.pauses == 3) world.put("other", Some(3000000))
    assert(world.key() === "other")
    assert(world.pauses === 3)
  })

  test("expired credentials that nobody renews are waited for once, and then left to the store's own clock")(world {
    world =>
      world.put("first", Some(world.now - 1))
      assert(world.key() === "first")
      assert(world.pauses * 200 === Freshness.WaitFor)
      assert(world.key() === "first")
      assert(world.pauses * 200 === Freshness.WaitFor)
      world.put("late", Some(world.now - 1))
      assert(world.key() === "late")
      assert(world.pauses * 200 === 2 * Freshness.WaitFor)
  })

  test("credentials without an end are never waited for, and replaced as well")(world { world =>
    world.put("own")
    assert(world.key() === "own")
    world.now += 1000000000000L
    world.put("newer")
    assert(world.key() === "newer")
    assert(world.pauses === 0)
  })

  test("a clock that was set back does not keep the file from being looked at")(world { world =>
    world.put("first")
    assert(world.key() === "first")
    world.put("other")
    world.now -= 500000
    assert(world.key() === "other")
  })

  test("what is missing is named, and no secret is")(world { world =>
    assert(intercept[SdkClientException](world.key()).getMessage.contains("aws-credentials cannot be read"))
    Files.writeString(world.file, "[penstock]\naws_secret_access_key = hidden\n", UTF_8)
    val error = intercept[SdkClientException](world.key())
    assert(error.getMessage.contains("has no keys in its profile [penstock]"))
    assert(!error.getMessage.contains("hidden"))
  })

  test("the variables say where the file is, as for AWS's own clients") {
    val file = Files.createTempFile("credentials", "")
    Files.writeString(file, "[other]\naws_access_key_id = a\naws_secret_access_key = b\n", UTF_8)
    val variables = Map("AWS_SHARED_CREDENTIALS_FILE" -> file.toString, "AWS_PROFILE" -> "other")
    assert(CredentialsFile.ofEnvironment(variables).read().credentials.accessKeyId === "a")
  }
}
