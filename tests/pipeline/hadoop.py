"""HDFS and YARN on loopback: Hadoop's own small clusters, in one process that ends with the tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from setup.jars import HADOOP, fetch
from setup.java import java
from setup.paths import spark_home, venv_python

_FIFO = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
_YARN = {
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.resourcemanager.scheduler.class": _FIFO,
    "yarn.scheduler.minimum-allocation-mb": "256",
}


class Hadoop(NamedTuple):
    """A running HDFS and YARN.

    Parameters
    ----------
    uri : str
        Of HDFS.
    conf : Path
        A folder for the variable ``HADOOP_CONF_DIR``.
    home : Path
        Folder of everything; containers have their logs below it.
    jvm : Any
        Java's classes, by Py4J.
    """

    uri: str
    conf: Path
    home: Path
    jvm: Any

    @property
    def variables(self) -> dict[str, str]:
        """The variables of a client."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def put(self, local: Path, path: str) -> None:
        """Copy a folder into HDFS."""
        paths = [self.jvm.org.apache.hadoop.fs.Path(each) for each in (local.as_uri(), self.uri + path)]
        site = self.jvm.org.apache.hadoop.conf.Configuration()
        paths[1].getFileSystem(site).copyFromLocalFile(*paths)

    @staticmethod
    def in_cluster_mode() -> tuple[str, ...]:
        """Options of a job with the settings ``c.toml`` whose driver and executor are in containers.

        Spark and Python are those of this machine.
        """
        options = ("--master", "yarn", "--deploy-mode", "cluster", "--num-executors", "1", "--files", "c.toml")
        spark = f"spark.yarn.jars=local:{spark_home()}/jars/*"
        return (*options, "--conf", spark, "--conf", f"spark.pyspark.python={venv_python()}")


@contextmanager
def running(home: Path) -> Iterator[Hadoop]:
    """HDFS with one data node, and YARN with one node, on free ports; ``home`` is an empty folder."""
    fetch(HADOOP)
    jars = spark_home() / "jars"
    with (home / "log").open("w") as log:
        port, process = launch_gateway(
            classpath=f"{HADOOP.folder}/*:{jars}/*",
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            java_path=str(java()),
            javaopts=["-Xmx1g", "--add-opens=java.base/java.lang=ALL-UNNAMED", f"-Dtest.build.data={home}"],
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(home),
            return_proc=True,
        )
        try:
            jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port, enable_memory_management=False)).jvm
            own = {"hadoop.tmp.dir": str(home / "tmp"), "hdfs.minidfs.basedir": str(home / "hdfs")}
            yield _started(jvm, home, {**own, **_YARN})
        finally:
            process.kill()
            process.wait()


def _started(jvm: Any, home: Path, properties: Mapping[str, str]) -> Hadoop:
    site = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in properties.items():
        site.set(name, value)
    getattr(jvm.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(site).numDataNodes(1).build().waitActive()
    nodes = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("ballast", 1, 1, 1)
    nodes.init(site)
    nodes.start()
    assert nodes.waitForNodeManagersToConnect(60_000)
    site = nodes.getConfig()
    site.unset("net.topology.node.switch.mapping.impl")  # a class of the tests of Hadoop
    conf = home / "conf"
    conf.mkdir()
    # Each part of Hadoop has a file of its own, with defaults that come after those of other parts.
    for part in ("core", "hdfs", "yarn"):
        file = jvm.java.io.FileOutputStream(str(conf / f"{part}-site.xml"))
        site.writeXml(file)
        file.close()
    return Hadoop(site.get("fs.defaultFS"), conf, home, jvm)
