import alluvium.Batch;
import alluvium.Cursor;
import alluvium.Keyspace;
import alluvium.Page;
import alluvium.Range;
import alluvium.Store;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Measures batched puts, scans and single gets in Java: Measure ENGINE PATH RECORDS. ENGINE is
 * alluvium or rocksdbjni. A first pass, which is not printed, lets the machine compile.
 */
public final class Measure {
  static final int BATCH = 1000;
  static final long MEMORY = 256 << 20;
  static final byte[] VALUE = new byte[100];

  final String engine;
  final String path;
  final byte[][] keys;
  final boolean isPrinted;

  Measure(String engine, String path, int records, boolean isPrinted) {
    this.engine = engine;
    this.path = path;
    this.isPrinted = isPrinted;
    keys = new byte[records][];
    for (int n = 0; n < records; n++) {
      keys[n] = String.format("%016x", n * 0x9e3779b97f4a7c15L).getBytes();
    }
  }

  /** What is measured. */
  interface Body {
    void run() throws Exception;
  }

  void measured(String what, Body body) throws Exception {
    var threads = ManagementFactory.getThreadMXBean();
    long began = System.nanoTime();
    long processor = threads.getCurrentThreadCpuTime();
    body.run();
    processor = threads.getCurrentThreadCpuTime() - processor;
    long wall = System.nanoTime() - began;
    if (isPrinted) {
      System.out.printf("%s-java %s %.0f %.0f%n", engine, what, keys.length * 1e9 / wall, keys.length * 1e9 / processor);
    }
  }

  void require(boolean holds) {
    if (!holds) {
      throw new IllegalStateException("a record is missing");
    }
  }

  static ByteBuffer direct(int size) {
    return ByteBuffer.allocateDirect(size);
  }

  /** Returns the length of a value. */
  interface Get {
    long length(byte[] key) throws Exception;
  }

  void gets(String what, Get get) throws Exception {
    measured(what, () -> {
      for (int n = keys.length; n-- > 0; ) {
        require(get.length(keys[n]) == 100);
      }
    });
  }

  void alluvium() throws Exception {
    try (Store store = Store.open(Path.of(path), "--memory 256M");
        Keyspace keyspace = store.keyspace("k");
        Batch batch = new Batch()) {
      Page records = new Page(1 << 18);
      measured("puts", () -> {
        for (int n = 0; n < keys.length; ) {
          for (records.clear(); n < keys.length && records.size() < BATCH * 124; n++) {
            records.add(keys[n], VALUE);
          }
          store.write(batch.putPage(keyspace, records.records()));
          batch.clear();
        }
      });
      store.checkpoint();
      measured("scan", () -> {
        int count = 0;
        try (Cursor cursor = keyspace.iterate(Range.all())) {
          for (; cursor.hasNext(); count++) {
            require(cursor.next().value().length == 100);
          }
        }
        require(count == keys.length);
      });
      measured("scan-pages", () -> {
        int[] count = {0};
        ByteBuffer page = direct(64 << 10);
        try (Cursor cursor = keyspace.iterate(Range.all())) {
          while (cursor.page(page.clear()) > 0) {
            Page.forEach(page, (bytes, key, keyLength, value, valueLength) ->
                count[0] += keyLength == 16 && bytes.get(value + 99) == 'v' ? 1 : 0);
          }
        }
        require(count[0] == keys.length);
      });
      // The first pass fills the caches.
      gets("first-gets", key -> keyspace.get(key).length);
      gets("gets", key -> keyspace.get(key).length);
      ByteBuffer key = direct(16);
      ByteBuffer value = direct(100);
      gets("gets-direct", bytes -> keyspace.get(key.put(0, bytes), value.clear()));
      measured("multi-gets", () -> {
        for (int n = 0; n < keys.length; n += 256) {
          for (byte[] found : keyspace.multiGet(Arrays.copyOfRange(keys, n, Math.min(n + 256, keys.length)))) {
            require(found.length == 100);
          }
        }
      });
    }
  }

  public static void main(String[] arguments) throws Exception {
    Arrays.fill(VALUE, (byte) 'v');
    int records = Integer.parseInt(arguments[2]);
    for (boolean isPrinted : new boolean[] {false, true}) {
      String path = arguments[1] + (isPrinted ? "" : ".first");
      Measure measure = new Measure(arguments[0], path, records, isPrinted);
      if (arguments[0].equals("alluvium")) {
        measure.alluvium();
      } else {
        // Compiled only where the engine is there.
        Class<?> rocks = Class.forName("MeasureRocks");
        ((Body) rocks.getDeclaredConstructor(Measure.class).newInstance(measure)).run();
      }
    }
  }
}
