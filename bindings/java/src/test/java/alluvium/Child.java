package alluvium;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What tests run in a process of its own. */
final class Child {
  private Child() {}

  /** Runs a program of this class path. Returns its output and, at the end, its exit status. */
  static String run(Map<String, String> environment, List<String> flags, String... program)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    for (String name : List.of("alluvium.library", "alluvium.jni")) {
      if (System.getProperty(name) != null) {
        command.add("-D" + name + "=" + System.getProperty(name));
      }
    }
    command.addAll(flags);
    command.addAll(List.of(program));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().putAll(environment);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return output + "status " + process.waitFor();
  }

  private static long residentKiB() throws IOException {
    String[] fields = Files.readString(Path.of("/proc/self/statm")).split(" ");
    return Long.parseLong(fields[1]) * 4;
  }

  /** Opens and closes a store. Returns the growth of memory after the given number of times. */
  private static long grown(int warm, int times, boolean isForgotten) throws IOException {
    long before = 0;
    for (int n = 1; n <= times; n++) {
      open(n % 2 == 0, isForgotten);
      if (n % (isForgotten ? 10 : 50) == 0) {
        // The buffers of cursors are the collector's.
        System.gc();
      }
      if (n == warm) {
        before = residentKiB();
      }
    }
    return residentKiB() - before;
  }

  private static void open(boolean isForced, boolean isForgotten) {
    Store store = Store.inMemory("--memory 16M --workers 1");
    Keyspace keyspace = store.keyspace("k");
    keyspace.put(new byte[] {'a'}, new byte[1000]);
    Cursor cursor = keyspace.iterate(Range.all());
    cursor.next();
    Transaction transaction = store.begin();
    transaction.put(keyspace, new byte[] {'b'}, new byte[10]);
    if (isForced) {
      store.forceClose();
    }
    if (!isForgotten) {
      cursor.close();
      transaction.close();
      keyspace.close();
      store.close();
    }
  }

  public static void main(String[] arguments) throws IOException {
    switch (arguments[0]) {
      case "version" -> {
        String bridge = Library.bridge().getClass().getSimpleName();
        System.out.println("version " + Store.version() + " by " + bridge);
      }
      case "openings" -> System.out.println("grown " + grown(300, 1300, false) + " KiB");
      case "forgotten openings" -> System.out.println("grown " + grown(1000, 2000, true) + " KiB");
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }
}
