package io.penstock.fs.testing

import java.io.File
import java.net.{URI, URLClassLoader}
import java.util.Properties

/**
 * s3proxy inside this JVM, its objects in memory, on a free port of 127.0.0.1. It ends with the JVM.
 *
 * It has a class path of its own: its Jackson, Guava and SDK are others than Hadoop's and Spark's.
 */
private[testing] object EmbeddedStore {

  /** The jar with everything s3proxy needs; the build copies it there. */
  private val JarProperty = "penstock.test.s3proxy"

  def start(accessKey: String, secretKey: String): URI = {
    val jar = new File(sys.props.getOrElse(JarProperty, "target/s3proxy/s3proxy.jar"))
    require(jar.isFile, s"no s3proxy at $jar: run Maven's generate-test-resources, or set -D$JarProperty=/path/to/jar")
    val loader = new URLClassLoader(Array(jar.toURI.toURL), ClassLoader.getPlatformClassLoader)
    within(loader)(start(loader, accessKey, secretKey))
  }

  private def start(loader: ClassLoader, accessKey: String, secretKey: String): URI = {
    val stores = loader.loadClass("org.gaul.s3proxy.BlobStores")
    val store =
      stores.getMethod("create", classOf[String], classOf[Properties]).invoke(null, "transient", new Properties)
    val proxy = loader.loadClass("org.gaul.s3proxy.S3Proxy")
    val builder = proxy.getMethod("builder").invoke(null)
    val authentication = loader.loadClass("org.gaul.s3proxy.auth.AuthenticationType")
    val signed = authentication.getMethod("valueOf", classOf[String]).invoke(null, "AWS_V4")

    def set(name: String, arguments: (Class[_], AnyRef)*): Unit =
      builder.getClass.getMethod(name, arguments.map(_._1): _*).invoke(builder, arguments.map(_._2): _*)

    set("blobStore", loader.loadClass("org.gaul.s3proxy.blobstore.BlobStore") -> store)
    set("endpoint", classOf[URI] -> URI.create("http://127.0.0.1:0"))
    val text = classOf[String]
    set("awsAuthentication", authentication -> signed, text -> accessKey, text -> secretKey)
    val server = builder.getClass.getMethod("build").invoke(builder)
    proxy.getMethod("start").invoke(server)
    URI.create(s"http://127.0.0.1:${proxy.getMethod("getPort").invoke(server)}")
  }

  /** Its libraries look for their parts with the thread's class loader; its threads inherit it. */
  private def within[A](loader: ClassLoader)(work: => A): A = {
    val thread = Thread.currentThread
    val before = thread.getContextClassLoader
    thread.setContextClassLoader(loader)
    try work
    finally thread.setContextClassLoader(before)
  }
}
