import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/** Kafka's own sticky assignors: a line of JSON in, as in assignors.jsonl of tests/vectors, a line of JSON out. */
class Assign {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
    for (String line; (line = in.readLine()) != null; ) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        answer.set("ok", assign(JSON.readTree(line)));
      } catch (RuntimeException e) {
        answer.putObject("error").put("type", e.getClass().getSimpleName()).put("message", e.getMessage());
      }
      out.println(answer);
    }
    out.flush();
  }

  static TopicPartition partition(JsonNode name) {
    int at = name.asText().lastIndexOf('-');
    return new TopicPartition(name.asText().substring(0, at), Integer.parseInt(name.asText().substring(at + 1)));
  }

  static Cluster cluster(JsonNode query) {
    List<PartitionInfo> partitions = new ArrayList<>();
    query.get("topics").fields().forEachRemaining(topic -> {
      for (int p = 0; p < topic.getValue().asInt(); p++)
        partitions.add(new PartitionInfo(topic.getKey(), p, Node.noNode(), new Node[0], new Node[0]));
    });
    return new Cluster("c", List.of(), partitions, Set.of(), Set.of());
  }

  static JsonNode assign(JsonNode query) {
    boolean sticky = query.get("assignor").asText().equals("sticky");
    Map<String, Subscription> subscriptions = new HashMap<>();
    query.get("members").fields().forEachRemaining(entry -> {
      JsonNode member = entry.getValue();
      List<String> topics = new ArrayList<>();
      member.get("topics").forEach(topic -> topics.add(topic.asText()));
      List<TopicPartition> owned = new ArrayList<>();
      member.path("owned").forEach(name -> owned.add(partition(name)));
      int generation = member.path("generation").asInt(-1);
      StickyAssignor before = new StickyAssignor();
      if (sticky && member.has("owned"))
        before.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
      subscriptions.put(entry.getKey(), new Subscription(topics,
          sticky ? before.subscriptionUserData(new HashSet<>(topics)) : null, sticky ? List.of() : owned, generation,
          Optional.empty()));
    });
    ConsumerPartitionAssignor assignor = sticky ? new StickyAssignor() : new CooperativeStickyAssignor();
    ObjectNode answer = JSON.createObjectNode();
    assignor.assign(cluster(query), new GroupSubscription(subscriptions)).groupAssignment()
        .forEach((member, given) -> given.partitions().forEach(p -> answer.withArray(member).add(p.toString())));
    subscriptions.keySet().forEach(answer::withArray);
    return answer;
  }
}
