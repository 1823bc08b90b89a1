package alluvium;

import java.nio.ByteBuffer;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Random orders of open, read, write, iterate, close, drop and use after close: Orders SEED STEPS. */
final class Orders {
  private static final List<String> STRUCTURES =
      List.of("tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed");

  private final Random draw;
  private final Store[] stores = new Store[3];
  private final Keyspace[] keyspaces = new Keyspace[6];
  private final Cursor[] cursors = new Cursor[8];
  private final Snapshot[] snapshots = new Snapshot[5];
  private final Transaction[] transactions = new Transaction[5];
  private final Batch[] batches = new Batch[2];

  /** How often steps came to each kind of error. */
  private final Map<Kind, Integer> kinds = new EnumMap<>(Kind.class);

  private Orders(long seed) {
    draw = new Random(seed);
  }

  /** Runs steps. Returns how often they came to each kind of error. Throws if no order explains one. */
  static Map<Kind, Integer> run(long seed, int steps) {
    Orders orders = new Orders(seed);
    for (int step = 0; step < steps; step++) {
      try {
        orders.step();
      } catch (AlluviumException refusal) {
        switch (refusal.kind()) {
          case PANICKED, CORRUPT, IO, OTHER, POISONED -> throw refusal;
          default -> orders.kinds.merge(refusal.kind(), 1, Integer::sum);
        }
      }
    }
    return orders.kinds;
  }

  private <T> int any(T[] objects) {
    return draw.nextInt(objects.length);
  }

  private boolean chance(int of) {
    return draw.nextInt(of) == 0;
  }

  private byte[] key() {
    return new byte[] {(byte) ('a' + draw.nextInt(8))};
  }

  private void step() {
    int s = any(stores);
    int k = any(keyspaces);
    Store store = stores[s];
    int verb = draw.nextInt(30);
    if (store == null) {
      stores[s] = Store.inMemory("--memory 16M --workers 1");
    } else if (verb < 5 || keyspaces[k] == null) {
      storeStep(s, k, verb);
    } else if (verb < 14) {
      keyspaceStep(keyspaces[k], k, verb);
    } else if (verb < 21) {
      viewStep(store, keyspaces[k], verb);
    } else {
      transactionStep(store, keyspaces[k], verb);
    }
  }

  private void storeStep(int s, int k, int verb) {
    Store store = stores[s];
    if (verb == 0 && chance(40)) {
      store.close();
    } else if (verb == 1 && chance(60)) {
      store.forceClose();
    } else if (verb == 2 && chance(30)) {
      // Left to the cleaner, or released at once.
      if (chance(2)) store.release();
      stores[s] = null;
    } else if (verb == 3) {
      store.stats();
    } else {
      int structure = draw.nextInt(STRUCTURES.size());
      keyspaces[k] = store.keyspace("k" + structure, "--structure " + STRUCTURES.get(structure));
    }
  }

  private void keyspaceStep(Keyspace keyspace, int k, int verb) {
    switch (verb) {
      case 5, 6 -> keyspace.put(key(), new byte[draw.nextInt(3000)]);
      case 7 -> keyspace.get(key());
      case 8 -> keyspace.multiGet(key(), key(), key());
      case 9 -> keyspace.deleteRange(key(), new byte[] {'h'});
      case 10 -> cursors[any(cursors)] = keyspace.iterate(Range.all().from(key()).to(new byte[] {'g'}));
      case 11 -> cursors[any(cursors)] = keyspace.iterate(Range.all().unordered());
      case 12 -> keyspace.compareAndSet(key(), null, key());
      default -> {
        if (chance(8)) keyspace.close();
        if (chance(8)) keyspaces[k] = null;
      }
    }
  }

  private void viewStep(Store store, Keyspace keyspace, int verb) {
    Cursor cursor = cursors[any(cursors)];
    Snapshot snapshot = snapshots[any(snapshots)];
    switch (verb) {
      case 14 -> snapshots[any(snapshots)] = store.snapshot();
      case 15 -> {
        if (snapshot != null) cursors[any(cursors)] = snapshot.iterate(keyspace, Range.all());
      }
      case 16 -> {
        if (snapshot != null) snapshot.get(keyspace, key());
        if (snapshot != null && chance(4)) snapshot.close();
      }
      case 17 -> {
        if (cursor != null) cursor.page(ByteBuffer.allocateDirect(draw.nextInt(400)));
      }
      case 18 -> {
        while (cursor != null && cursor.hasNext() && !chance(4)) cursor.next();
      }
      case 19 -> {
        if (cursor != null) cursor.seek(key());
      }
      default -> {
        if (cursor != null && chance(2)) cursor.close();
        if (chance(3)) cursors[any(cursors)] = null;
      }
    }
  }

  private void transactionStep(Store store, Keyspace keyspace, int verb) {
    int x = any(transactions);
    Transaction transaction = transactions[x];
    if (transaction == null || verb == 21) {
      transactions[x] = store.begin(chance(2) ? "--isolation snapshot" : "");
      return;
    }
    int b = any(batches);
    switch (verb) {
      case 22 -> transaction.put(keyspace, key(), key());
      case 23 -> transaction.get(keyspace, key());
      case 24 -> cursors[any(cursors)] = transaction.iterate(keyspace, Range.all());
      case 25 -> transaction.commit();
      case 26 -> {
        if (chance(2)) transaction.close();
        if (chance(2)) transactions[x] = null;
      }
      case 27 -> {
        if (batches[b] == null || chance(4)) batches[b] = new Batch();
        batches[b].put(keyspace, key(), key()).delete(keyspace, key());
      }
      case 28 -> {
        if (batches[b] != null) store.write(batches[b]);
      }
      default -> {
        if (batches[b] != null && chance(4)) batches[b].close();
        if (chance(3)) transaction.rollback();
      }
    }
  }

  public static void main(String[] arguments) {
    Map<Kind, Integer> kinds = run(Long.parseLong(arguments[0]), Integer.parseInt(arguments[1]));
    System.out.println("steps: " + arguments[1] + ", answers: " + kinds);
    if (!kinds.keySet().containsAll(List.of(Kind.CLOSED, Kind.ENDED, Kind.IN_USE, Kind.INVALID_ARGUMENT))) {
      System.exit(1);
    }
  }
}
