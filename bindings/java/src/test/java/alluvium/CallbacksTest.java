package alluvium;

import static alluvium.StoreTest.bytes;
import static alluvium.StoreTest.refused;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CallbacksTest {
  private static final int KEYS = 2000;

  /** Keeps the greater of two values. Refuses empty ones. */
  private static final MergeOperator GREATER =
      new MergeOperator() {
        @Override
        public byte[] merge(byte[] older, byte[] newer) {
          return Arrays.compareUnsigned(older, newer) < 0 ? newer : older;
        }

        @Override
        public boolean accepts(byte[] bytes) {
          return bytes.length > 0;
        }

        @Override
        public boolean isCommutative() {
          return true;
        }
      };

  private static void awaitNoCallbacks(int before) throws InterruptedException {
    for (int wait = 0; Callbacks.count() > before && wait < 1000; wait++) {
      System.gc();
      Thread.sleep(5);
    }
    assertEquals(before, Callbacks.count());
  }

  @Test
  void mergeOperatorsAreCalledAndFreed(@TempDir Path place) throws InterruptedException {
    int before = Callbacks.count();
    for (int round = 0; round < 2; round++) {
      try (Options options = new Options("--memory 16M").mergeOperator("greater", GREATER);
          Store store = Store.open(place.resolve("store"), options);
          Keyspace keyspace = store.keyspace("k", "--merge-operator greater")) {
        for (int n = 0; n < KEYS; n++) {
          keyspace.merge(bytes("k" + n), bytes(round == 0 ? "5" : n % 2 == 0 ? "7" : "3"));
        }
        store.checkpoint();
        keyspace.merge(bytes("k0"), bytes("6"));
        store.compact();
        assertArrayEquals(bytes(round == 0 ? "6" : "7"), keyspace.get(bytes("k0")));
        assertArrayEquals(bytes("5"), keyspace.get(bytes("k1")));
        refused(Kind.INVALID_ARGUMENT, "check", () -> keyspace.merge(bytes("k"), bytes("")));
        try (Transaction first = store.begin();
            Transaction second = store.begin()) {
          first.merge(keyspace, bytes("n"), bytes("1"));
          second.merge(keyspace, bytes("n"), bytes("2"));
          second.commit();
          first.commit();
        }
        assertArrayEquals(bytes("2"), keyspace.get(bytes("n")));
      }
    }
    refused(Kind.INVALID_ARGUMENT, "greater", () -> Store.open(place.resolve("store")));
    Options closed = new Options("");
    closed.close();
    refused(Kind.INVALID_ARGUMENT, "NULL", () -> closed.mergeOperator("greater", GREATER));
    refused(Kind.INVALID_ARGUMENT, "NULL", () -> Store.inMemory(closed));
    awaitNoCallbacks(before);
  }

  @Test
  void anOperatorThatThrowsLeavesTheNewerValue() throws InterruptedException {
    int before = Callbacks.count();
    List<String> reported = Collections.synchronizedList(new ArrayList<>());
    Thread.UncaughtExceptionHandler handler = Thread.getDefaultUncaughtExceptionHandler();
    Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> reported.add(failure.getMessage()));
    MergeOperator failing = (older, newer) -> {
      throw new IllegalStateException("the operator fails");
    };
    try (Options options = new Options("").mergeOperator("failing", failing);
        Store store = Store.inMemory(options);
        Keyspace keyspace = store.keyspace("k", "--merge-operator failing")) {
      keyspace.put(bytes("a"), bytes("1"));
      keyspace.merge(bytes("a"), bytes("2"));
      assertArrayEquals(bytes("2"), keyspace.get(bytes("a")));
      assertTrue(reported.contains("the operator fails"), reported.toString());
    } finally {
      Thread.setDefaultUncaughtExceptionHandler(handler);
    }
    awaitNoCallbacks(before);
  }

  @Test
  void anOperatorThatCallsTheStoreIsRefused() {
    List<String> reported = Collections.synchronizedList(new ArrayList<>());
    Keyspace[] own = new Keyspace[1];
    MergeOperator calling = (older, newer) -> {
      try {
        own[0].get(newer);
      } catch (AlluviumException refusal) {
        reported.add(refusal.getMessage());
      }
      return older;
    };
    try (Options options = new Options("").mergeOperator("calling", calling);
        Store store = Store.inMemory(options);
        Keyspace keyspace = store.keyspace("k", "--merge-operator calling")) {
      own[0] = keyspace;
      keyspace.put(bytes("a"), bytes("1"));
      keyspace.merge(bytes("a"), bytes("2"));
      assertArrayEquals(bytes("1"), keyspace.get(bytes("a")));
      assertTrue(reported.get(0).contains("calls the store"), reported.toString());
    }
  }

  @Test
  void compactionFiltersDecide(@TempDir Path place) throws InterruptedException {
    int before = Callbacks.count();
    CompactionFilter filter = (key, value, expiresMs, nowMs) -> {
      assertTrue(nowMs > 1_000_000_000_000L && expiresMs == 0);
      return switch (value[0]) {
        case 'r' -> CompactionFilter.Verdict.remove();
        case 'n' -> CompactionFilter.Verdict.replace(bytes("new"));
        default -> CompactionFilter.Verdict.keep();
      };
    };
    try (Options options = new Options("--memory 16M").compactionFilter("decide", filter);
        Store store = Store.open(place.resolve("store"), options);
        Keyspace keyspace = store.keyspace("k", "--compaction-filter decide")) {
      for (int n = 0; n < KEYS; n++) {
        keyspace.put(bytes("a" + n), bytes("remove"));
        keyspace.put(bytes("b" + n), bytes("next"));
        keyspace.put(bytes("c" + n), bytes("keep"));
      }
      store.checkpoint();
      store.compact();
      assertNull(keyspace.get(bytes("a7")));
      assertArrayEquals(bytes("new"), keyspace.get(bytes("b7")));
      assertArrayEquals(bytes("keep"), keyspace.get(bytes("c7")));
    }
    awaitNoCallbacks(before);
  }
}
