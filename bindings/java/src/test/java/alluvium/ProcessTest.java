package alluvium;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class ProcessTest {
  private static void keepsNoMemory(String program, long mostKiB)
      throws IOException, InterruptedException {
    // The allocator of C keeps memory for each thread that has used it. With one arena for all, what
    // grows is what is kept. The heap has its full size from the beginning.
    List<String> flags =
        List.of("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-Xint");
    String output = Child.run(Map.of("MALLOC_ARENA_MAX", "1"), flags, "alluvium.Child", program);
    assertTrue(output.endsWith("status 0"), output);
    long grown = Long.parseLong(output.replaceAll("(?s).*grown (-?\\d+) KiB.*", "$1"));
    System.out.println(program + ": " + grown + " KiB");
    assertTrue(grown < mostKiB, output);
  }

  @Test
  void aThousandOpeningsKeepNoMemory() throws IOException, InterruptedException {
    keepsNoMemory("openings", 4 << 10);
  }

  @Test
  void aThousandForgottenStoresKeepNoMemory() throws IOException, InterruptedException {
    // The collector decides how many wait to be freed.
    keepsNoMemory("forgotten openings", 32 << 10);
  }

  @Test
  @Timeout(value = 2, unit = TimeUnit.MINUTES)
  void whatAProgramForgetsIsFreed(@TempDir Path place) throws InterruptedException {
    forget(place.resolve("store"));
    while (true) {
      System.gc();
      try (Store store = Store.open(place.resolve("store"), "--memory 16M");
          Keyspace keyspace = store.existingKeyspace("k")) {
        assertArrayEquals(new byte[] {'1'}, keyspace.get(new byte[] {'a'}));
        return;
      } catch (AlluviumException refusal) {
        assertEquals(Kind.LOCKED, refusal.kind(), refusal.getMessage());
      }
      Thread.sleep(1);
    }
  }

  private static void forget(Path path) {
    Store store = Store.open(path, "--memory 16M");
    Keyspace keyspace = store.keyspace("k");
    keyspace.put(new byte[] {'a'}, new byte[] {'1'});
    keyspace.iterate(Range.all());
    store.begin().put(keyspace, new byte[] {'b'}, new byte[] {'2'});
    store.snapshot();
    keyspace.ingest();
  }

  @Test
  void theLibraryIsFoundInTheJarAndLeavesNoFiles(@TempDir Path place)
      throws IOException, InterruptedException {
    String output = Child.run(Map.of(), List.of("-Djava.io.tmpdir=" + place), "alluvium.Child", "version");
    assertTrue(output.startsWith("version 0.1.0 by ") && output.endsWith("status 0"), output);
    try (var files = Files.list(place)) {
      List<Path> left = files.filter(file -> !file.getFileName().toString().startsWith("hsperf")).toList();
      assertEquals(List.of(), left);
    }
  }

  @Test
  void eachMachineHasItsBridge() throws IOException, InterruptedException {
    boolean isJni = Boolean.getBoolean("alluvium.jni") || Runtime.version().feature() < 22;
    String output = Child.run(Map.of(), List.of(), "alluvium.Child", "version");
    assertTrue(output.contains(isJni ? "JniBridge" : "ForeignBridge"), output);
    output = Child.run(Map.of(), List.of("-Dalluvium.jni=true"), "alluvium.Child", "version");
    assertTrue(output.contains("JniBridge"), output);
  }

  @Test
  void aMissingLibraryIsNamed(@TempDir Path place) throws IOException, InterruptedException {
    String flag = "-Dalluvium.library=" + place;
    String output = Child.run(Map.of(), List.of(flag), "alluvium.Child", "version");
    for (String part : List.of("UnsatisfiedLinkError", place + "/liballuvium.so.0", LibraryFiles.platform(), "alluvium.library", "status 1")) {
      assertTrue(output.contains(part), output);
    }
    Files.writeString(place.resolve("liballuvium.so.0"), "no library");
    output = Child.run(Map.of(), List.of(flag), "alluvium.Child", "version");
    assertTrue(output.contains("liballuvium cannot be loaded"), output);
    output = Child.run(Map.of(), List.of("-Djava.io.tmpdir=" + place.resolve("none")), "alluvium.Child", "version");
    assertTrue(output.contains("it cannot be copied to java.io.tmpdir"), output);
  }

  @Test
  void theProgramOfThePageRuns(@TempDir Path place) throws IOException, InterruptedException {
    String page = Files.readString(Path.of("../../docs/java.md"));
    Path program = place.resolve("Rivers.java");
    Files.writeString(program, page.split("```java\n")[1].split("```")[0]);
    String output = Child.run(Map.of(), List.of(), program.toString());
    assertEquals("Rhine 1233 km\nOder 840 km\nElbe 1094 km\nstatus 0", output);
  }
}
