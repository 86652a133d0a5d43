import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.reflect.*;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.ScheduledFuture;
import kafka.server.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.EpochEndOffset;
import org.apache.kafka.server.LeaderEndPoint;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.network.BrokerEndPoint;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own truncation: a line of JSON in, as in truncate.jsonl of tests/vectors, a line of JSON out. */
class Truncate {
  static final ObjectMapper JSON = new ObjectMapper();
  static final TopicPartition TP = new TopicPartition("t", 0);

  /** A log that has only its epochs and its end. */
  static class Log {
    final LeaderEpochFileCache epochs;
    long end;

    Log(JsonNode given) throws IOException {
      epochs = new LeaderEpochFileCache(TP, new InMemory(), new NoScheduler());
      for (JsonNode entry : given.get("epochs")) epochs.assign(entry.get(0).asInt(), entry.get(1).asLong());
      end = given.get("end").asLong();
    }

    /** As UnifiedLog.endOffsetForEpoch. */
    Optional<OffsetAndEpoch> endOffset(int epoch) {
      Map.Entry<Integer, Long> found = epochs.endOffsetFor(epoch, end);
      return found.getKey() == -1 ? Optional.empty() : Optional.of(new OffsetAndEpoch(found.getValue(), found.getKey()));
    }

    /** As UnifiedLog.truncateTo. */
    void truncate(long offset) {
      if (offset >= end) return;
      epochs.truncateFromEndAsyncFlush(offset);
      end = offset;
    }
  }

  static class InMemory extends LeaderEpochCheckpointFile {
    InMemory() throws IOException { super(FILE, new LogDirFailureChannel(1)); }
    @Override public void write(Collection<EpochEntry> epochs) {}
    @Override public void writeIfDirExists(Collection<EpochEntry> epochs) {}
    @Override public List<EpochEntry> read() { return List.of(); }
  }

  static class NoScheduler implements Scheduler {
    public void startup() {}
    public void shutdown() {}
    public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) { return null; }
    public void resizeThreadPool(int size) {}
  }

  static class Follower extends AbstractFetcherThread {
    final Log log;

    Follower(Log log) {
      super("follower", "follower", LEADER, new FailedPartitions(), null, 0, false, new BrokerTopicStats(false));
      this.log = log;
    }

    public scala.Option<LogAppendInfo> processPartitionData(
        TopicPartition tp, long offset, int epoch, FetchResponseData.PartitionData data) { return null; }
    public void truncate(TopicPartition tp, OffsetTruncationState state) {}
    public void truncateFullyAndStartAt(TopicPartition tp, long offset) {}
    public Optional<Integer> latestEpoch(TopicPartition tp) { return log.epochs.latestEpoch(); }
    public long logStartOffset(TopicPartition tp) { return 0; }
    public long logEndOffset(TopicPartition tp) { return log.end; }
    public Optional<OffsetAndEpoch> endOffsetForEpoch(TopicPartition tp, int epoch) { return log.endOffset(epoch); }
    public boolean shouldFetchFromLastTieredOffset(TopicPartition tp, long start, long end) { return false; }
  }

  static final LeaderEndPoint LEADER = (LeaderEndPoint) Proxy.newProxyInstance(
      Truncate.class.getClassLoader(), new Class<?>[] {LeaderEndPoint.class}, (self, method, arguments) -> {
        if (method.getName().equals("brokerEndPoint")) return new BrokerEndPoint(1, "localhost", 1);
        return method.getReturnType() == boolean.class ? true : null;
      });
  static final File FILE;
  static final Method TRUNCATION;

  static {
    try {
      TRUNCATION = AbstractFetcherThread.class.getDeclaredMethod(
          "getOffsetTruncationState", TopicPartition.class, EpochEndOffset.class);
      TRUNCATION.setAccessible(true);
      File folder = Files.createTempDirectory("truncate").toFile();
      folder.deleteOnExit();
      FILE = new File(folder, "epochs");
      FILE.deleteOnExit();
    } catch (IOException | NoSuchMethodException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The leader compares as in Partition.readRecords; the follower truncates by its own class. */
  static JsonNode follow(JsonNode query) throws Exception {
    Log leader = new Log(query.get("leader")), log = new Log(query.get("follower"));
    Follower follower = new Follower(log);
    while (log.epochs.latestEpoch().isPresent()) {
      int epoch = log.epochs.latestEpoch().get();
      Optional<OffsetAndEpoch> ours = leader.endOffset(epoch);
      if (ours.isEmpty()) return NullNode.getInstance();
      if (ours.get().epoch() >= epoch && ours.get().offset() >= log.end) break;
      EpochEndOffset diverging = new EpochEndOffset()
          .setPartition(0).setLeaderEpoch(ours.get().epoch()).setEndOffset(ours.get().offset());
      log.truncate(((OffsetTruncationState) TRUNCATION.invoke(follower, TP, diverging)).offset());
    }
    ObjectNode answer = JSON.createObjectNode().put("end", log.end);
    ArrayNode epochs = answer.putArray("epochs");
    log.epochs.epochEntries().forEach(entry -> epochs.addArray().add(entry.epoch()).add(entry.startOffset()));
    return answer;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out));
    for (String line; (line = in.readLine()) != null; )
      out.println(JSON.createObjectNode().set("ok", follow(JSON.readTree(line))).toString());
    out.flush();
    System.exit(0);
  }
}
