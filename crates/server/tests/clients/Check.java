import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.masterreplica.MasterReplica;
import java.util.Map;

/** Checks what Lettuce does with a server, alone and as a master without replicas: Check PORT. */
public class Check {
    public static void main(String[] args) {
        RedisURI address = RedisURI.create("redis://127.0.0.1:" + args[0]);
        RedisClient client = RedisClient.create();
        use(client.connect(StringCodec.UTF8, address).sync());
        use(MasterReplica.connect(client, StringCodec.UTF8, address).sync());
        client.shutdown();
        System.out.println("done");
    }

    static void use(RedisCommands<String, String> commands) {
        commands.flushdb();
        must(commands.set("key", "value").equals("OK"));
        must(commands.get("key").equals("value"));
        must(commands.incr("count") == 1);
        must(commands.hset("hash", Map.of("a", "1", "b", "2")) == 2);
        must(commands.hgetall("hash").size() == 2);
        commands.multi();
        commands.incr("count");
        must((Long) commands.exec().get(0) == 2L);
        must(commands.role().get(0).equals("master"));
        must(commands.info("replication").contains("role:master"));
    }

    static void must(boolean holds) {
        if (!holds) {
            throw new AssertionError("not so");
        }
    }
}
