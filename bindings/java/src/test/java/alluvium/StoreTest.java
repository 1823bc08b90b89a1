package alluvium;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreTest {
  private Store store;
  private Keyspace keyspace;

  static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  static ByteBuffer direct(byte[] bytes) {
    return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
  }

  static void refused(Kind kind, String part, Runnable step) {
    AlluviumException refusal = assertThrows(AlluviumException.class, step::run);
    assertEquals(kind, refusal.kind(), refusal.getMessage());
    assertTrue(refusal.getMessage().contains(part), refusal.getMessage());
  }

  @BeforeEach
  void open() {
    store = Store.inMemory("--memory 16M --workers 1");
    keyspace = store.keyspace("k");
  }

  @AfterEach
  void release() {
    keyspace.close();
    store.release();
  }

  @Test
  void everyFunctionOfTheHeaderIsCalled() throws IOException {
    String header = Files.readString(Path.of("../c/include/alluvium.h"));
    Matcher declared = Pattern.compile("(?m)^(?:const )?[a-z0-9_]+ [*]?alluvium_([a-z_]+)\\(").matcher(header);
    StringBuilder sources = new StringBuilder();
    try (var files = Files.list(Path.of("src/main/java/alluvium"))) {
      for (Path file : files.toList()) {
        sources.append(Files.readString(file).replaceAll("static final long [A-Z_]+ = .*\n", ""));
      }
    }
    int count = 0;
    while (declared.find()) {
      count++;
      String constant = "\\b" + declared.group(1).toUpperCase() + "\\b";
      assertTrue(Pattern.compile(constant).matcher(sources).find(), declared.group(1));
    }
    assertTrue(count >= 70, count + " functions");
  }

  @Test
  void closingNamesWhatLives() {
    keyspace.put(bytes("a"), bytes("1"));
    Cursor cursor = keyspace.iterate(Range.all());
    Transaction transaction = store.begin();
    transaction.put(keyspace, bytes("b"), bytes("2"));
    refused(Kind.IN_USE, "an iterator over \"k\", transaction", store::close);
    assertArrayEquals(bytes("1"), keyspace.get(bytes("a")));
    cursor.close();
    transaction.close();
    store.close();
    store.close();
    refused(Kind.CLOSED, "closed", store::sync);
    refused(Kind.CLOSED, "closed", () -> keyspace.get(bytes("a")));
  }

  @Test
  void childrenOfAForcedCloseThrow() {
    keyspace.put(bytes("a"), bytes("1"));
    Cursor cursor = keyspace.iterate(Range.all());
    Transaction transaction = store.begin();
    Snapshot snapshot = store.snapshot();
    Ingest ingest = keyspace.ingest();
    store.forceClose();
    refused(Kind.CLOSED, "", cursor::hasNext);
    refused(Kind.CLOSED, "", () -> transaction.put(keyspace, bytes("b"), bytes("2")));
    refused(Kind.CLOSED, "", () -> snapshot.get(keyspace, bytes("a")));
    refused(Kind.CLOSED, "", () -> ingest.put(bytes("a"), bytes("1")));
    refused(Kind.CLOSED, "", store::forceClose);
    cursor.close();
    cursor.close();
    refused(Kind.INVALID_ARGUMENT, "NULL", cursor::hasNext);
    transaction.close();
    ingest.close();
    snapshot.close();
    refused(Kind.INVALID_ARGUMENT, "", () -> snapshot.iterate(keyspace, Range.all()));
    store.close();
  }

  @Test
  void aReleasedStoreLivesInItsKeyspaces() {
    try (Store released = Store.inMemory("")) {
      Keyspace last = released.keyspace("k");
      released.release();
      last.put(bytes("a"), bytes("1"));
      assertArrayEquals(bytes("1"), last.get(bytes("a")));
      refused(Kind.INVALID_ARGUMENT, "NULL", released::sync);
      last.close();
    }
  }

  @Test
  void aBlockClosesItsStore(@TempDir Path place) {
    try (Store first = Store.open(place.resolve("store"), "--memory 16M");
        Keyspace rivers = first.keyspace("rivers")) {
      rivers.put(bytes("Elbe"), bytes("1094 km"));
      refused(Kind.LOCKED, "", () -> Store.open(place.resolve("store")));
    }
    try (Store again = Store.open(place.resolve("store"));
        Keyspace rivers = again.existingKeyspace("rivers")) {
      assertArrayEquals(bytes("1094 km"), rivers.get(bytes("Elbe")));
    }
  }

  @Test
  void valuesOfEveryLengthAreRead() {
    for (int length : new int[] {0, 1, 4000, 4072, 4073, 4096, 70_000, 1 << 20, 3 << 20}) {
      byte[] value = new byte[length];
      Arrays.fill(value, (byte) length);
      keyspace.put(bytes("a"), value);
      assertArrayEquals(value, keyspace.get(bytes("a")));
      assertArrayEquals(value, keyspace.multiGet(bytes("b"), bytes("a"))[1]);
      try (Cursor cursor = keyspace.iterate(Range.all())) {
        assertArrayEquals(value, cursor.next().value());
        assertFalse(cursor.hasNext());
      }
      try (Transaction transaction = store.begin()) {
        assertArrayEquals(value, transaction.get(keyspace, bytes("a")));
      }
    }
    byte[] key = new byte[60_000];
    keyspace.put(key, bytes("long"));
    assertArrayEquals(bytes("long"), keyspace.get(key));
    assertEquals(0, keyspace.multiGet().length);
  }

  @Test
  void directBuffersAreReadAndWritten() {
    ByteBuffer key = direct(bytes("xElbe")).position(1);
    keyspace.put(key, direct(bytes("1094 km")), 0);
    assertArrayEquals(bytes("1094 km"), keyspace.get(bytes("Elbe")));
    ByteBuffer value = ByteBuffer.allocateDirect(20).position(3);
    assertEquals(7, keyspace.get(key, value));
    assertEquals("1094 km", UTF_8.decode(value).toString());
    ByteBuffer small = ByteBuffer.allocateDirect(4);
    assertEquals(7, keyspace.get(key, small));
    assertEquals("1094", UTF_8.decode(small).toString());
    assertEquals(Keyspace.ABSENT, keyspace.get(direct(bytes("Oder")), ByteBuffer.allocateDirect(4)));
    refused(Kind.INVALID_ARGUMENT, "allocateDirect", () -> keyspace.get(ByteBuffer.allocate(1), value));
    refused(Kind.INVALID_ARGUMENT, "read-only", () -> keyspace.get(key, value.asReadOnlyBuffer()));
    assertEquals(0, keyspace.get(direct(new byte[0]), ByteBuffer.allocateDirect(0)) + 1);
  }

  @Test
  void cursorsReadPagesFromBothEnds() {
    Page page = new Page(10);
    for (int n = 0; n < 5000; n++) {
      page.add(bytes(String.format("%05d", n)), new byte[n % 50]);
    }
    page.add(direct(bytes("long")), direct(new byte[300_000]));
    try (Batch batch = new Batch("disk")) {
      batch.putPage(keyspace, page.records());
      assertEquals(5001, batch.count());
      store.write(batch);
    }
    for (Range range : List.of(Range.all(), Range.all().reversed())) {
      List<Entry> entries = new ArrayList<>();
      keyspace.iterate(range).forEachRemaining(entries::add);
      assertEquals(5001, entries.size());
      Entry last = entries.get(range == Range.all() ? 5000 : 0);
      assertEquals("long", new String(last.key(), UTF_8));
      assertEquals(300_000, last.value().length);
      assertEquals(40, entries.get(range == Range.all() ? 40 : 4960).value().length);
    }
    try (Cursor cursor = keyspace.iterate(Range.prefix(bytes("012")).keysOnly())) {
      assertEquals("01200", new String(cursor.next().key(), UTF_8));
      cursor.seek(bytes("01250"));
      assertEquals("01250", new String(cursor.next().key(), UTF_8));
      refused(Kind.IN_USE, "", store::close);
    }
    Cursor ended = keyspace.iterate(Range.all().from(bytes("x")));
    assertFalse(ended.hasNext());
    assertThrows(NoSuchElementException.class, ended::next);
    store.close();
  }

  @Test
  void pagesThatAreDamagedEndEarly() {
    List<Integer> lengths = new ArrayList<>();
    Page.Visitor visitor = (page, key, keyLength, value, valueLength) -> lengths.add(valueLength);
    ByteBuffer records = new Page(8).add(bytes("a"), bytes("12")).add(bytes("b"), bytes("3")).records();
    Page.forEach(records.duplicate().limit(records.limit() - 1), visitor);
    assertEquals(List.of(2), lengths);
    Page.forEach(direct(new byte[] {-1, -1, -1, -1, 0, 0, 0, 0, 0}), visitor);
    Page.forEach(direct(new byte[] {0, 0, 0, 0, -1, -1, -1, 127, 0}), visitor);
    assertEquals(List.of(2), lengths);
    try (Batch batch = new Batch()) {
      refused(
          Kind.INVALID_ARGUMENT,
          "",
          () -> batch.putPage(keyspace, records.duplicate().limit(records.limit() - 1)));
    }
  }

  @Test
  void ingestsBecomeVisibleTogether() {
    try (Ingest ingest = keyspace.ingest()) {
      ingest.put(bytes("a"), bytes("1"));
      ingest.putPage(new Page(100).add(bytes("b"), bytes("2")).add(bytes("c"), bytes("3")).records());
      assertNull(keyspace.get(bytes("a")));
      assertEquals(3, ingest.finish());
    }
    assertArrayEquals(bytes("3"), keyspace.get(bytes("c")));
    assertEquals(3, keyspace.approximateCount());
  }

  @Test
  void textsThatAreNoTextsAreRefused() {
    refused(Kind.INVALID_ARGUMENT, "zero byte", () -> store.keyspace("a\0b"));
    refused(Kind.INVALID_ARGUMENT, "half a character", () -> store.keyspace("\ud800"));
    refused(Kind.INVALID_ARGUMENT, "--colour", () -> Store.inMemory("--colour"));
    assertThrows(NullPointerException.class, () -> keyspace.get((byte[]) null));
    assertThrows(NullPointerException.class, () -> store.begin().get(null, bytes("a")));
    Keyspace greek = store.keyspace("Ποταμοί 🏞");
    assertTrue(store.keyspaces().contains("Ποταμοί 🏞"), store.keyspaces());
    greek.close();
    assertEquals("0.1.0", Store.version());
  }

  @Test
  void conflictsAreThrownAndRunAgain() throws Exception {
    keyspace.put(bytes("n"), bytes("0"));
    try (Transaction first = store.begin();
        Transaction second = store.begin()) {
      for (Transaction transaction : List.of(first, second)) {
        transaction.get(keyspace, bytes("n"), Dependence.TRACKED);
        transaction.put(keyspace, bytes("n"), bytes("1"));
      }
      first.commit();
      ConflictException conflict = assertThrows(ConflictException.class, second::commit);
      assertEquals(Kind.CONFLICT, conflict.kind());
    }
    for (String options : List.of("", "--isolation snapshot", "--locking")) {
      keyspace.put(bytes("n"), bytes("0"));
      List<Thread> threads = new ArrayList<>();
      for (int thread = 0; thread < 4; thread++) {
        threads.add(new Thread(() -> count(options, 50)));
        threads.get(thread).start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      assertArrayEquals(bytes("200"), keyspace.get(bytes("n")), options);
    }
    assertThrows(IOException.class, () -> store.transact(transaction -> {
      transaction.put(keyspace, bytes("n"), bytes("7"));
      throw new IOException("the body fails");
    }));
    assertArrayEquals(bytes("200"), keyspace.get(bytes("n")));
    int[] runs = {0};
    assertThrows(ConflictException.class, () -> store.transact(transaction -> {
      runs[0]++;
      transaction.get(keyspace, bytes("n"));
      transaction.put(keyspace, bytes("m"), bytes("1"));
      keyspace.put(bytes("n"), bytes("changed"));
      return null;
    }));
    assertEquals(64, runs[0]);
  }

  private void count(String options, int times) {
    for (int n = 0; n < times; n++) {
      store.transact(options, transaction -> {
        byte[] value = transaction.get(keyspace, bytes("n"));
        int next = Integer.parseInt(new String(value, UTF_8)) + 1;
        transaction.put(keyspace, bytes("n"), bytes(Integer.toString(next)));
        return next;
      });
    }
  }

  @Test
  void aBackupIsRestored(@TempDir Path place) {
    keyspace.put(bytes("a"), bytes("1"));
    store.backup(place.resolve("backup"));
    keyspace.put(bytes("a"), bytes("2"));
    Store.restore(place.resolve("backup"), place.resolve("restored"));
    try (Store restored = Store.open(place.resolve("restored"), "--memory 16M");
        Keyspace found = restored.existingKeyspace("k")) {
      assertArrayEquals(bytes("1"), found.get(bytes("a")));
      assertTrue(restored.check().contains("\"whole\":true"));
      assertTrue(restored.stats().startsWith("{"));
    }
    assertTrue(Store.repair(place.resolve("restored")).contains("\"whole\":true"));
    refused(Kind.NOT_FOUND, "", () -> Store.repair(place.resolve("nowhere")));
  }

  @Test
  void threadsUseAStoreThatIsClosed() throws InterruptedException {
    List<Throwable> failures = new ArrayList<>();
    for (int round = 0; round < 20; round++) {
      Store shared = Store.inMemory("--memory 16M --workers 1");
      Keyspace space = shared.keyspace("k");
      List<Thread> threads = new ArrayList<>();
      for (int thread = 0; thread < 4; thread++) {
        threads.add(new Thread(() -> useUntilClosed(space)));
        threads.get(thread).setUncaughtExceptionHandler((where, failure) -> {
          synchronized (failures) {
            failures.add(failure);
          }
        });
        threads.get(thread).start();
      }
      Thread.sleep(2);
      shared.forceClose();
      shared.release();
      space.close();
      for (Thread thread : threads) {
        thread.join();
      }
    }
    assertEquals(List.of(), failures);
  }

  private static void useUntilClosed(Keyspace space) {
    try {
      for (int n = 0; ; n++) {
        space.put(bytes(Integer.toString(n % 500)), bytes("v"));
        try (Cursor cursor = space.iterate(Range.all())) {
          cursor.forEachRemaining(entry -> assertEquals(1, entry.value().length));
        }
      }
    } catch (AlluviumException refusal) {
      if (refusal.kind() != Kind.CLOSED && !refusal.getMessage().contains("NULL")) {
        throw refusal;
      }
    }
  }

  /** Returns whether a read throws. The machine throws at the read or soon after it. */
  private static boolean isRefused(MappedByteBuffer mapping) {
    try {
      for (int n = 0; n < 1000; n++) {
        mapping.get(0, new byte[1 << 16]);
        Thread.sleep(1);
      }
      return false;
    } catch (InternalError refusal) {
      return true;
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  @Test
  void damagedMappingsOfTheProgramAreStillItsOwn(@TempDir Path place) throws IOException {
    // The library handles SIGBUS for its own files, and leaves that of others to the machine.
    Path file = place.resolve("mapped");
    Files.write(file, new byte[1 << 16]);
    try (RandomAccessFile opened = new RandomAccessFile(file.toFile(), "rw");
        Store mapped = Store.open(place.resolve("store"))) {
      MappedByteBuffer mapping = opened.getChannel().map(MapMode.READ_WRITE, 0, 1 << 16);
      opened.setLength(0);
      assertTrue(isRefused(mapping));
    }
    assertSame(Kind.CLOSED, Kind.labelled("closed"));
    assertSame(Kind.OTHER, Kind.labelled("a kind of a later version"));
  }
}
